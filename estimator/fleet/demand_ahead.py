"""What a job will have to train over days: the forecast where it reaches, then what the past was like."""

from __future__ import annotations

import math

import numpy as np

from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
LATELY_S = 3_600.0


def demand_ahead(
    history: TrafficHistory,
    forecast: Forecast | None,
    *,
    now_s: float,
    steps: int,
    step_s: float,
    level: float = 0.9,
) -> tuple[float, ...]:
    """Samples/s in each of the next steps.

    The forecast at `level` where it covers a step; else what was measured a week before, else so many
    days before; else what came lately. Zero where nothing was ever measured.

    >>> past = TrafficHistory(start_s=0.0, step_s=3600.0, rates=np.arange(24.0))
    >>> demand_ahead(past, None, now_s=86_400.0, steps=3, step_s=3600.0)
    (0.0, 1.0, 2.0)
    """
    lately = history.recent(LATELY_S)
    fallback = float(lately.mean()) if len(lately) else 0.0
    demand = []
    for step in range(steps):
        start_s, end_s = now_s + step * step_s, now_s + (step + 1) * step_s
        rate = _forecast(forecast, start_s, end_s, level)
        if rate is None:
            rate = _past(history, start_s, end_s)
        demand.append(fallback if rate is None else rate)
    return tuple(demand)


def _forecast(forecast: Forecast | None, start_s: float, end_s: float, level: float) -> float | None:
    if forecast is None or end_s > forecast.issued_at_s + forecast.horizon_s + forecast.step_s / 2:
        return None
    first = max(0, int((start_s - forecast.issued_at_s) // forecast.step_s))
    last = max(first + 1, math.ceil((end_s - forecast.issued_at_s) / forecast.step_s))
    bins = forecast.path(level)[first:last]
    return float(bins.mean()) if len(bins) else None


def _past(history: TrafficHistory, start_s: float, end_s: float) -> float | None:
    """The mean of the same time a week before, or so many days before as bring it into the past."""
    weeks = max(1, math.ceil((end_s - history.end_s) / WEEK_S))
    days = max(1, math.ceil((end_s - history.end_s) / DAY_S))
    for back_s in (weeks * WEEK_S, days * DAY_S):
        first = round((start_s - back_s - history.start_s) / history.step_s)
        last = max(first + 1, round((end_s - back_s - history.start_s) / history.step_s))
        if first >= 0:
            known = history.rates[first:last]
            known = known[~np.isnan(known)]
            if len(known):
                return float(known.mean())
    return None
