"""`seasonal`: what came a season ago, at today's level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from forecasting.errors import NotEnoughHistory
from forecasting.forecast import Forecast, peak_bins, steps_in
from forecasting.history import Rates, TrafficHistory
from forecasting.residuals import (
    ORIGINS,
    Indices,
    came_at,
    highest_from,
    leads_to_measure,
    past_origins,
    paths_around,
    scale_of,
    spread,
)
from forecasting.trailing import trailing_means_at

RATIO_MAX = 4.0
"""Beyond this a day is not a louder copy of another; the rest of the difference is added."""


@dataclass(frozen=True, slots=True)
class SeasonalNaive:
    """The rate one season ago times the level of now over the level of then.

    The levels are means over `level_s`. Where the ratio would leave
    [1/RATIO_MAX, RATIO_MAX] it is cut off and the remaining difference is added,
    so a quiet hour a season ago cannot multiply itself to infinity or hold a busy
    hour at zero. A gap a season ago is filled from the seasons before.

    >>> day = np.tile([2.0, 4.0, 8.0, 4.0], 5)
    >>> history = TrafficHistory(start_s=0.0, step_s=60.0, rates=day)
    >>> SeasonalNaive(season_s=240.0).forecast(history, horizon_s=180.0).path(0.5).tolist()
    [2.0, 4.0, 8.0]
    """

    season_s: float = 86_400.0
    level_s: float = 1800.0

    @property
    def name(self) -> str:
        return "seasonal"

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        step_s = history.step_s
        steps, season = steps_in(horizon_s, step_s), max(1, round(self.season_s / step_s))
        window = min(max(3, round(self.level_s / step_s)), season)
        # Three seasons tell as much as ten, and a longer history must not cost more.
        rates = history.rates[-(max(3 * season, season + ORIGINS) + window) :]
        known = np.flatnonzero(~np.isnan(rates))
        if len(known) == 0 or len(rates) < season + 1:
            raise NotEnoughHistory(self.name, have_s=history.span_s, need_s=self.season_s + step_s)
        shift = _Shift.at_end_of(rates, season, window, steps, level=float(rates[known].mean()))
        width = peak_bins(step_s, horizon_s)
        paths = shift.band(rates)
        if paths is None:
            raise NotEnoughHistory(self.name, have_s=history.known * step_s, need_s=self.season_s + step_s)
        peaks = shift.band(highest_from(rates, width))
        return Forecast(
            issued_at_s=history.end_s,
            step_s=step_s,
            paths=paths,
            peaks=None if peaks is None else np.maximum(peaks, paths),
            peak_s=width * step_s,
            model=self.name,
            data_age_s=(len(rates) - 1 - int(known[-1])) * step_s,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Which bins are read: they follow from the lengths alone, and stay where a history is long enough."""

    origins: Indices
    """Bins at which a guess was made: those of the past, and last the one that is asked for."""
    leads: Indices
    target: Indices
    """(leads, past origins): what was guessed."""
    source: Indices
    """The same a season before; further back where the lead is longer than the season."""
    ahead: Indices
    """(steps, 1): the sources of what is to come."""


@lru_cache(maxsize=32)
def _places(bins: int, season: int, steps: int) -> _Places:
    leads = leads_to_measure(steps)
    past = past_origins(min(season + 30, bins // 2 + 1), bins - 1)
    past = past[past > season]
    now = np.array([bins])
    source, ahead = _source(past, leads, season), _source(now, np.arange(1, steps + 1), season)
    return _Places(np.append(past, now), leads, past[None, :] + leads[:, None] - 1, source, ahead)


def _source(origins: Indices, leads: Indices, season: int) -> Indices:
    """The bins (leads, origins) that tell of bin origin + lead - 1; all of them precede their origin."""
    source: Indices = origins[None, :] + leads[:, None] - 1 - season
    beyond = source >= origins[None, :]  # a lead longer than the season
    return np.where(beyond, source - season * (1 + (source - origins) // season), source)


@dataclass(frozen=True, slots=True, eq=False)
class _Shift:
    """Guesses a series one season on, at the level of the origin."""

    places: _Places
    season: int
    level: float
    ratio: Rates
    """By origin: what a season ago is multiplied with."""
    rest: Rates
    """By origin: what is added to that."""

    @classmethod
    def at_end_of(cls, rates: Rates, season: int, window: int, steps: int, *, level: float) -> _Shift:
        """For what follows `rates`. Levels are means over `window` bins."""
        places = _places(len(rates), season, steps)
        now, then = trailing_means_at(
            rates, window, np.stack([places.origins, np.maximum(places.origins - season, 0)])
        )
        now, then = np.where(np.isnan(now), then, now), np.where(np.isnan(then), now, then)
        ratio = np.clip(now / np.maximum(then, 1e-300), 1 / RATIO_MAX, RATIO_MAX)
        ratio = np.where(now == then, 1.0, ratio)  # both zero, say: nothing to scale by
        return cls(places, season, level, ratio, now - then * ratio)

    def band(self, series: Rates) -> Rates | None:
        """Quantiles (LEVELS, steps) of what follows `series`; None when no season ago was measured."""
        places = self.places
        point = self._guess(series, places.ahead, slice(-1, None))[:, 0]
        if np.isnan(point).all():
            return None
        guesses = self._guess(series, places.source, slice(None, -1))
        came = came_at(series, places.target)
        offsets = spread((came - guesses) / scale_of(guesses, self.level), places.leads, len(point))
        point = np.where(np.isnan(point), self.level, point)
        return paths_around(point, offsets * scale_of(point, self.level))

    def _guess(self, series: Rates, source: Indices, origins: slice) -> Rates:
        """What each source makes expect at the level of its origin."""
        guess = np.where(source >= 0, series[np.maximum(source, 0)], np.nan)
        for seasons_more in (1, 2):  # a gap there is filled from the seasons before
            missing = np.isnan(guess)
            if not missing.any():
                break
            further = source - seasons_more * self.season
            fill = np.where(further >= 0, series[np.maximum(further, 0)], np.nan)
            guess = np.where(missing, fill, guess)
        return np.asarray(np.maximum(guess * self.ratio[origins] + self.rest[origins], 0.0), dtype=np.float64)
