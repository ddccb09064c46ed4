"""The cheapest pool: GPU time, lateness and resizes weighed over the futures."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from estimator.planner.futures import Futures
from estimator.planner.rollout import BEHIND, LATE, LEFT, OVERDUE, Counts, Floats, roll
from estimator.planner.timing import Timing
from estimator.situation import Situation

OVERDUE_SHARE = 0.1
"""A sample overdue by one more SLO costs this share of a late one: late samples still matter."""
RESIZE_SHARE = 1.2
"""A resize costs as much as this many starts of one worker, besides the pause: a pool must not fidget."""
LARGE = 8
"""A larger pool is charged as much more as it is larger: of a hundred workers one more or less is never far
from the best, and the noise of every minute would move it. Not where what is given back is spared for long:
else a pool could stay too large for ever."""
NOTHING = 0.01
"""Traffic below this share of what one worker trains needs none at once."""
WAITS_MAX = 10.0
"""Where nobody trains, samples wait for no longer than so many times lead time + SLO, however little a few of
them are worth: one start in so long costs next to nothing."""
GIVE_BACK_SHARE = 0.3
"""Giving back costs as much more as one worker for this many times lead time + SLO, times the root of the
price of what may be late until it is back; unless it lasts."""
FULL = 1.0
"""A pool is full when typical traffic is this share of what it can train."""
TIE = 1e-4
"""Costs that differ by less than this share are the same: the steps of a rollout are coarser than that."""
TRIED_MAX = 64
"""Up to this many sizes all are tried; of more, so many spread over them, and then the ones next to the best.
A pool that is far too small has two cheap sizes with dearer ones between them: a search from here finds
the wrong one."""

FACTORS = (1.05, 1.15, 1.4)
"""Traffic higher or lower by these is tried, to say what would change the decision."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pool size and what it is expected to come to."""

    workers: int
    cost: float
    """In worker-seconds over the horizon."""
    late_share: float
    """Of the samples that arrive over the horizon or wait now."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The cheapest candidate, and others to compare it with; None where one may not be."""

    best: Candidate
    fewer: Candidate | None
    """One worker less."""
    more: Candidate | None
    stay: Candidate | None
    """The size as it is."""
    late_share_least: float
    """With the size that is late the least, of all that there may be: what no size could avoid."""
    factor_fewer: float | None
    """Traffic lower by this factor would make the next smaller size the cheaper one; None when none of
    those tried."""
    factor_more: float | None

    @property
    def workers(self) -> int:
        """The size chosen."""
        return self.best.workers


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """One situation with its futures, ready to try candidates on."""

    seen: Situation
    futures: Futures
    timing: Timing
    price: float
    explains: bool = True
    """Whether to try how much traffic must differ for another choice: most of the work, for people only."""

    def choose(self) -> Choice:
        """The cheapest candidate within the limits."""
        seen, curve = self.seen, self._curve()
        high = seen.limits.workers_max
        now = min(max(seen.requested, seen.limits.workers_min), high)
        low = max(seen.limits.workers_min, min(self._floor(curve), now), self._awaited())
        sizes = _worthwhile(curve, low, high, now)
        tried, costs, late = self._try(_spread(sizes, now), curve)
        while True:
            best = _cheapest(costs)
            beyond = _beyond(tried, best, sizes)
            if len(beyond) == 0:
                break
            more = self._try(beyond, curve)
            tried, costs, late = (
                np.concatenate(pair) for pair in zip((tried, costs, late), more, strict=True)
            )
            order = np.argsort(tried)
            tried, costs, late = tried[order], costs[order], late[order]
        every = {
            int(n): Candidate(int(n), float(cost), float(share))
            for n, cost, share in zip(tried, costs, late, strict=True)
        }
        at = int(tried[best])
        place = int(np.searchsorted(sizes, at))
        smaller = int(sizes[place - 1]) if place > 0 else None
        larger = int(sizes[place + 1]) if place + 1 < len(sizes) else None
        most = every.get(high) or Candidate(high, *self._one(high, curve))
        return Choice(
            every[at],
            None if smaller is None else every.get(smaller),
            None if larger is None else every.get(larger),
            every.get(seen.requested),
            min(most.late_share, float(late.min())),
            self._factor(at, smaller, curve) if self.explains and smaller is not None else None,
            self._factor(at, larger, curve) if self.explains and larger is not None else None,
        )

    def _curve(self) -> Floats:
        # C(1) is what a sample costs, though there may be nobody at all.
        most = max(self.seen.limits.workers_max, self.seen.ready, self.seen.requested, 1)
        sizes = np.arange(most + 1)
        curve = np.array([self.seen.capacity.samples_per_s(n) for n in sizes.tolist()])
        # Of n workers that each live for L and take T to be replaced, n·L/(L + T) train.
        alive = sizes / (1 + self.seen.deaths_per_s * self.timing.lead_time_s)
        usable: Floats = np.interp(alive, sizes, np.nan_to_num(curve, nan=0.0, posinf=0.0))
        return usable

    def _floor(self, curve: Floats) -> int:
        """The size below which no forecast may push.

        If the traffic of now stayed, a pool of C(n) would fall behind by (rate - C) a second until
        new workers come, a bin and a lead time from now, and may by then be C·SLO behind:
        C >= rate·(1 - SLO / (SLO + lead + bin)).
        """
        timing = self.timing
        grace = timing.slo_s / (timing.slo_s + timing.lead_time_s + timing.bin_s)
        spare = NOTHING * float(curve[1])
        enough = np.flatnonzero(curve + spare >= self.futures.typical[0] * (1 - grace))
        return int(enough[0]) if len(enough) else len(curve)

    def _awaited(self) -> int:
        """One worker where samples have waited for long: a few are worth less than a start for ever."""
        seen, timing = self.seen, self.timing
        long_s = WAITS_MAX * (timing.lead_time_s + timing.slo_s)
        return min(1, seen.limits.workers_max) if seen.lag > 0 and seen.lag_s > long_s else 0

    def _try(self, candidates: Counts, curve: Floats) -> tuple[Counts, Floats, Floats]:
        """Cost and late share of each."""
        seen, timing = self.seen, self.timing
        leads_s = seen.lead_times_s or (timing.lead_time_s,)
        outcome = np.zeros((len(candidates), 4))
        for place, lead_s in enumerate(leads_s):
            arriving_s = self._arriving_s(leads_s, (place + 0.5) / len(leads_s))
            outcome += roll(
                candidates, self.futures.rates, self.futures.chances, curve, arriving_s,
                seen.ready, seen.requested, seen.standbys, seen.lag, max(seen.lag_s, 1e-9),
                timing.step_s, timing.slo_s, lead_s, seen.pause_s,
            ) / len(leads_s)  # fmt: skip
        one = max(float(curve[1]), 1e-9)
        late, overdue = outcome[:, LATE], outcome[:, OVERDUE] / timing.slo_s
        held = candidates * timing.charged_s
        costs = (
            held
            + self._resizing(candidates, curve)
            + (outcome[:, LEFT] + self.price * (late + outcome[:, BEHIND] + OVERDUE_SHARE * overdue)) / one
        )
        arrive = self.futures.chances @ self.futures.rates.sum(axis=1) * timing.step_s + seen.lag
        return candidates, costs, late / max(float(arrive), 1e-9)

    def _resizing(self, candidates: Counts, curve: Floats) -> Floats:
        """What each change costs. Giving back costs more, the sooner it will be missed.

        A worker given back is spared until typical traffic needs it again. That may make up for the
        surcharge, but for no more: else going down and up again would pay for itself.
        """
        seen, timing = self.seen, self.timing
        start = RESIZE_SHARE * timing.start_s
        resize = start + seen.pause_s * seen.ready
        # No larger than it may move: a pool that goes by single steps must not stay for the price of each.
        room = seen.requested - seen.limits.workers_min, seen.limits.workers_max - seen.requested
        down, up = (start * max(min(seen.requested, far) / LARGE - 1.0, 0.0) for far in room)
        peak = np.maximum.accumulate(self.futures.further)
        able = FULL * curve[candidates] + NOTHING * float(curve[1])
        spared_s = timing.bin_s * np.searchsorted(peak, able, side="right")
        given_back = np.maximum(seen.requested - candidates, 0)
        missed_s = GIVE_BACK_SHARE * math.sqrt(self.price) * (timing.lead_time_s + timing.slo_s)
        surcharge = np.where(given_back > 0, np.maximum(missed_s + down - given_back * spared_s, 0.0), up)
        return np.where(candidates == seen.requested, 0.0, resize + surcharge)

    def _arriving_s(self, leads_s: tuple[float, ...], level: float) -> Floats:
        """Seconds until each start is ready, at quantile `level` of the lead times that it can still have.

        A start that has waited for longer than all of them may take as long again as it is late.
        """
        arriving_s = []
        for since_s in self.seen.starting_since_s:
            age_s = max(self.seen.now_s - since_s, 0.0)
            possible_s = [lead_s - age_s for lead_s in leads_s if lead_s > age_s]
            late_s = age_s - leads_s[-1]
            arriving_s.append(possible_s[int(level * len(possible_s))] if possible_s else late_s)
        return np.sort(np.array(arriving_s, dtype=np.float64))

    def _one(self, workers: int, curve: Floats) -> tuple[float, float]:
        _, costs, late = self._try(np.array([workers]), curve)
        return float(costs[0]), float(late[0])

    def _factor(self, best: int, other: int, curve: Floats) -> float | None:
        """How much more or less traffic would make `other` the cheaper of the two."""
        pair = np.array([best, other])
        for factor in FACTORS:
            scale = factor if other > best else 1 / factor
            _, costs, _ = replace(self, futures=self.futures.scaled(scale))._try(pair, curve)
            if costs[1] < costs[0]:
                return scale
        return None


def _cheapest(costs: Floats) -> int:
    """The last of those that cost the least.

    Work put off costs as much as work done: of two pools that differ by it alone, the larger
    one leaves less to chance.
    """
    least = costs.min()
    return int(np.flatnonzero(costs <= least * (1 + TIE))[-1])


def _worthwhile(curve: Floats, low: int, high: int, now: int) -> Counts:
    """Sizes that train more than every smaller one that may be chosen, and the present one.

    Where whole partitions are dealt, one worker more often trains nothing more; looking only one
    step away, the next size that does would never be found.
    """
    allowed = np.arange(low, high + 1)
    best_before = np.concatenate([[-1.0], np.maximum.accumulate(curve[low:high])])
    worth: Counts = allowed[(curve[low : high + 1] > best_before) | (allowed == now)]
    return worth


def _spread(sizes: Counts, now: int) -> Counts:
    """All of them, or some from the least to the most, those around the present one among them.

    >>> _spread(np.arange(1, 6), 2)
    array([1, 2, 3, 4, 5])
    >>> len(_spread(np.arange(1, 1001), 500))
    67
    """
    if len(sizes) <= TRIED_MAX:
        return sizes
    here = int(np.searchsorted(sizes, now))
    places = np.append(np.linspace(0, len(sizes) - 1, TRIED_MAX).astype(np.int64), [here - 1, here, here + 1])
    return np.asarray(sizes[np.unique(np.clip(places, 0, len(sizes) - 1))])


def _beyond(tried: Counts, best: int, sizes: Counts) -> Counts:
    """Sizes next to the best one that were not tried yet."""
    places = np.searchsorted(sizes, tried)
    at = int(places[best])
    below = at - 1 if best == 0 else int(places[best - 1]) + 1
    above = at + 1 if best == len(tried) - 1 else int(places[best + 1]) - 1
    wanted = [place for place in (below, at - 1, at + 1, above) if 0 <= place < len(sizes)]
    return np.setdiff1d(sizes[wanted], tried)
