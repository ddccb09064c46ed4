"""`kale`: a rule after Kale (SoCC'24), inferred from its reviews, since its equations are not public.

Past traffic gives a point forecast, the prediction curve is smoothed, workers are estimated
from a learned curve C(n), and it acts only when the prediction stays at a level for a period.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from estimator.reason import Reason
from estimator.rules.rule import Rule, is_due
from estimator.situation import Situation, Sizing
from forecasting.forecast import Forecast
from forecasting.history import Rates

PERIOD_S = 60.0


@dataclass(frozen=True, slots=True)
class KaleMemory:
    """Since when the estimate has differed from the pool, in one direction."""

    last_s: float | None = None
    differs_since_s: float | None = None
    grows: bool = False


def kale(smooth_s: float = 600.0, hold_s: float = 300.0, level_s: float = 600.0) -> Rule[KaleMemory]:
    """n = min n: C(n) >= the smoothed forecast over the next `level_s` after the lead time.

    Acts once n has differed from the pool for `hold_s`. Without a forecast it holds.
    """

    def size(seen: Situation, memory: KaleMemory) -> tuple[Sizing, KaleMemory]:
        if not is_due(memory.last_s, seen.now_s, PERIOD_S):
            return Sizing(seen.requested, Reason.STEADY), memory
        if seen.forecast is None:
            return Sizing(seen.requested, Reason.NO_FORECAST), KaleMemory(seen.now_s)
        until_s = seen.now_s + seen.lead_time_s + level_s
        level = smoothed_level(seen.forecast, smooth_s=smooth_s, until_s=until_s)
        wanted = seen.capacity.workers_for(level, workers_max=seen.limits.workers_max)
        wanted = max(wanted, seen.limits.workers_min)
        numbers = {"level_per_s": level, "wanted": float(wanted)}
        if wanted == seen.requested:
            return Sizing(wanted, Reason.STEADY, numbers), KaleMemory(seen.now_s)
        grows = wanted > seen.requested
        held = memory.differs_since_s is not None and memory.grows == grows
        since_s = memory.differs_since_s if held and memory.differs_since_s is not None else seen.now_s
        if seen.now_s - since_s < hold_s:
            return Sizing(seen.requested, Reason.SETTLING, numbers), KaleMemory(seen.now_s, since_s, grows)
        reason = Reason.FORECAST_RISE if grows else Reason.FORECAST_FALL
        return Sizing(wanted, reason, numbers), KaleMemory(seen.now_s)

    return Rule("kale", KaleMemory, size, period_s=PERIOD_S, foresees=True)


def smoothed_level(forecast: Forecast, *, smooth_s: float, until_s: float) -> float:
    """The highest value up to `until_s` of the median path, smoothed by a moving average of `smooth_s`.

    >>> paths = np.array([[2.0, 4.0, 6.0, 8.0]])
    >>> ahead = Forecast(issued_at_s=0.0, step_s=60.0, paths=paths, model="doc", levels=(0.5,))
    >>> smoothed_level(ahead, smooth_s=120.0, until_s=180.0)
    7.0
    """
    steps = max(1, math.ceil((until_s - forecast.issued_at_s) / forecast.step_s))
    width = min(max(1, round(smooth_s / forecast.step_s)), forecast.paths.shape[1])
    path: Rates = forecast.path(0.5)
    sums = np.concatenate([[0.0], np.cumsum(path)])
    smooth = (sums[width:] - sums[:-width]) / width
    return float(smooth[:steps].max())
