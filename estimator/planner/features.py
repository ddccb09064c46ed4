"""What the planner's own forecast looks at: recent levels, slopes, and the same time before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimator.planner.compiled import compiled

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

LONGEST = 64
"""Bins of the longest recent mean, once there is a past to learn it from."""
RECENT = 8
"""Features of the recent past; each season adds one more than there are knots. Then come a constant and two
of the clock."""
CLOCK_SEASONS = 7
"""Over which a bin is seen to stand out, as far as they are known."""
WIDTH = 8
"""Bins over which a season before is averaged."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Which features a model uses, all in bins."""

    ahead: int
    """Bins forecast."""
    seasons: tuple[int, ...]
    """Lengths of the seasons known in full."""
    longest: int = LONGEST
    """Bins of the longest recent mean: a young job has no long ones to learn from."""

    @property
    def reach(self) -> int:
        """Bins before the origin that a row needs."""
        return max([2 * self.longest, *(season + LONGEST for season in self.seasons)])

    @property
    def looks_back(self) -> int:
        """Bins before the origin that a row makes use of."""
        return max(self.reach, CLOCK_SEASONS * self.seasons[0] + WIDTH if self.seasons else 0)

    def by_the_clock(self, levels: Floats, last: int) -> Floats:
        """`by_the_clock` for every bin up to the last one forecast from `last`."""
        if not self.seasons or self.seasons[0] < self.ahead + WIDTH:
            return np.zeros(last + 1 + self.ahead)
        return by_the_clock(levels, last, self.seasons[0], self.ahead)

    @property
    def lengths(self) -> Places:
        """The seasons, for compiled code."""
        return np.array(self.seasons, dtype=np.int64)

    @property
    def knots(self) -> Places:
        """Bins ahead at which a season before is looked up."""
        chosen = sorted({max(1, round(self.ahead * part)) for part in (0.15, 0.4, 0.7, 1.0)})
        return np.array(chosen, dtype=np.int64)


@compiled
def _mean(levels: Floats, last: int, many: int) -> float:
    total = 0.0
    for place in range(last - many + 1, last + 1):
        total += levels[place]
    return total / many


@compiled
def by_the_clock(levels: Floats, last: int, season: int, ahead: int) -> Floats:
    """How far each bin, up to `ahead` after `last`, uses to stand out from those around it.

    The mean over the same bin of the last seasons, as if it had not in one more: what one season shows is
    mostly chance. Jobs that start on the hour send for three minutes; a mean over eight does not know which.
    """
    found = np.zeros(last + 1 + ahead)
    half = WIDTH // 2
    for place in range(len(found)):
        known = 0
        for back in range(1, CLOCK_SEASONS + 1):
            then = place - back * season
            if then >= half:
                found[place] += levels[then] - _mean(levels, then + half - 1, WIDTH)
                known += 1
        found[place] /= known + 1
    return found


@compiled
def row(  # noqa: PLR0917 - compiled
    levels: Floats,
    clock: Floats,
    origin: int,
    lead: int,
    seasons: Places,
    knots: Places,
    longest: int,
    into: Floats,
) -> None:
    """The features at bin `origin` for the bin `lead` after it, all relative to the level there.

    So the plainest forecast, that all stays as it is, is the row of zero weights. Only the last feature
    differs by lead.
    """
    now = levels[origin]
    window = 2
    for place in range(6):
        into[place] = _mean(levels, origin, min(window, longest)) - now
        window *= 2
    into[6] = _mean(levels, origin, 4) - _mean(levels, origin - 8, 4)
    quarter = longest // 4
    into[7] = _mean(levels, origin, quarter) - _mean(levels, origin - 2 * quarter, quarter)
    here = _mean(levels, origin, 16)
    place = RECENT
    for season in seasons:
        before = origin - season
        base = _mean(levels, before + WIDTH // 2, WIDTH)
        for knot in knots:
            ahead = min(before + knot + WIDTH // 2, origin)
            into[place] = _mean(levels, ahead, WIDTH) - base
            place += 1
        into[place] = _mean(levels, before, 16) - here
        place += 1
    into[place] = 1.0
    into[place + 1] = clock[origin]
    into[place + 2] = clock[origin + lead]


@compiled
def rows(  # noqa: PLR0917 - compiled
    levels: Floats, clock: Floats, origins: Places, seasons: Places, knots: Places, longest: int
) -> Floats:
    """One row for each origin, for the bin after it."""
    found = np.empty((len(origins), RECENT + len(seasons) * (len(knots) + 1) + 3))
    for place in range(len(origins)):
        row(levels, clock, origins[place], 1, seasons, knots, longest, found[place])
    return found


@compiled
def logarithms(rates: Floats, quiet: float) -> Floats:
    """log(rate + quiet), so that no traffic has a level too; a gap takes the value before it."""
    levels = np.empty(len(rates))
    last = np.log(quiet)
    for place in range(len(rates)):
        if not np.isnan(rates[place]):
            last = np.log(rates[place] + quiet)
        levels[place] = last
    return levels


@compiled
def recent_highs(levels: Floats, guard: int) -> Floats:
    """For every place the highest mean of three levels that ends within the `guard` bins before it.

    Minus infinity where there are no three. The means that may still become the highest are kept in order,
    so that each is looked at twice, however long the guard.
    """
    highs = np.full(len(levels), -np.inf)
    means = np.full(len(levels), -np.inf)
    kept = np.empty(len(levels), dtype=np.int64)
    first, end = 0, 0
    for place in range(3, len(levels)):
        newest = place - 1
        means[newest] = (levels[newest] + levels[newest - 1] + levels[newest - 2]) / 3
        while end > first and means[kept[end - 1]] <= means[newest]:
            end -= 1
        kept[end] = newest
        end += 1
        if kept[first] < place - guard:
            first += 1
        highs[place] = means[kept[first]]
    return highs


def guarded(levels: Floats, highs: Floats, fall: float) -> Floats:
    """Levels without sudden dips: a short outage is not a quiet future.

    A level lies at most `fall` below the recent high. What stays low longer than the
    guard of the `recent_highs` is believed.

    >>> calm = np.array([3.0, 3.0, 3.0, 0.0, 3.0])
    >>> guarded(calm, recent_highs(calm, 3), fall=1.0)
    array([3., 3., 3., 2., 3.])
    """
    return np.maximum(levels, highs - fall)


@compiled
def surprises(  # noqa: PLR0917 - compiled
    levels: Floats,
    clock: Floats,
    origins: Places,
    seasons: Places,
    knots: Places,
    longest: int,
    range_: Floats,
    first: Floats,
) -> Floats:
    """Errors of the one-step forecast `first` at each origin, made from the bin before it."""
    errors = np.empty(len(origins))
    into = np.empty(len(first))
    for place in range(len(origins)):
        origin = origins[place] - 1
        row(levels, clock, origin, 1, seasons, knots, longest, into)
        said = 0.0
        for i in range(len(first)):
            said += first[i] * min(max(into[i], range_[0, i]), range_[1, i])
        errors[place] = levels[origin + 1] - levels[origin] - said
    return errors
