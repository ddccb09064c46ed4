"""From what was measured to what learned models read: gaps filled, outages not taken for traffic.

Everything here looks back only: a value is filled from what came before it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from forecasting.grid import Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.trailing import trailing_means

QUIET_SHARE = 0.02
"""A bin below this share of the level before it is silence, where the level was worth the name."""


def calm(history: TrafficHistory, grid: Grid) -> TrafficHistory:
    """The history with short outages, and the bursts after them, as gaps: what every model is shown."""
    return replace(history, rates=calm_rates(history.rates, grid))


def calm_rates(rates: Rates, grid: Grid) -> Rates:
    """`without_outages` in the grid's units: silences of up to half an hour."""
    half_hour = grid.bins(30)
    return without_outages(rates, season=grid.season, window=half_hour, outage_max=max(2, half_hour))


def without_outages(rates: Rates, *, season: int, window: int, outage_max: int) -> Rates:
    """Silences of up to `outage_max` bins, and the burst after them, as gaps (NaN).

    A silence starts when traffic falls at once to (almost) nothing. When it ends, what
    had been held up arrives in a burst that is no traffic either: the bins above twice
    the level before the silence, for at most as long as it lasted. A silence that lasts
    longer than `outage_max` is a new level and stays from there on. Where a season ago
    was as silent, it is the rhythm, not an outage.
    """
    cleaned = rates.copy()
    seen_to = 0
    for at in _suspects(rates, window):
        if at < seen_to:
            continue
        level = _level_before(cleaned, at, window)
        ends = _end_of_silence(rates, at, level, outage_max)
        if _silent_a_season_ago(rates, at, season, level) or np.isnan(level):
            continue
        cleaned[at:ends] = np.nan
        length = ends - at
        burst = rates[ends : ends + length] > 2 * level
        stop = int(np.argmin(burst)) if not burst.all() else len(burst)
        cleaned[ends : ends + stop] = np.nan
        seen_to = ends + stop
    return cleaned


def _suspects(rates: Rates, window: int) -> list[int]:
    """Bins silent by the bins before them, the last of which was not; cheap, as most have none."""
    before = trailing_means(rates, window)[:-1]
    silent = rates <= QUIET_SHARE * before  # False where either is unknown
    starts = np.flatnonzero(silent[1:] & ~silent[:-1]) + 1
    return [int(at) for at in starts if at >= window]


def _level_before(rates: Rates, at: int, window: int) -> float:
    before = rates[max(at - window, 0) : at]
    known = before[~np.isnan(before)]
    # Small counts are silent by chance: the lowest of the window must stand clear of nothing.
    if len(known) == 0 or np.quantile(known, 0.1) <= 0.1 * known.mean():
        return np.nan
    return float(known.mean())


def _end_of_silence(rates: Rates, at: int, level: float, outage_max: int) -> int:
    last = min(at + outage_max, len(rates))
    loud = np.flatnonzero(rates[at:last] > QUIET_SHARE * max(level, 0.0))
    return at + int(loud[0]) if len(loud) else last


def _silent_a_season_ago(rates: Rates, at: int, season: int, level: float) -> bool:
    before = rates[max(at - season - 2, 0) : max(at - season + 3, 0)]
    return bool(len(before) and np.nanmin(np.append(before, np.inf)) <= QUIET_SHARE * level)


def filled(rates: Rates, *, season: int, hold: int) -> tuple[Rates, int]:
    """The rates without gaps, and the first bin that was measured.

    A gap holds the last value for `hold` bins, then repeats the season before; where
    that is unknown too it goes on holding. Bins before the first measurement are zero.

    >>> filled(np.array([np.nan, 2.0, np.nan, 4.0]), season=10, hold=2)
    (array([0., 2., 2., 4.]), 1)
    """
    known = ~np.isnan(rates)
    if not known.any():
        return np.zeros(len(rates)), len(rates)
    first = int(np.argmax(known))
    if known[first:].all():
        return np.where(known, rates, 0.0), first
    at = np.arange(len(rates))
    latest = np.maximum.accumulate(np.where(known, at, first))
    values = rates[latest]
    for bin_ in at[(at > first) & (at - latest > hold)]:
        if bin_ - season >= first:
            values[bin_] = values[bin_ - season]
    values[:first] = 0.0
    return values, first
