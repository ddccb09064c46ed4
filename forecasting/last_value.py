"""Models that say: traffic stays as it is. They need one measurement, so they end every chain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forecasting.errors import NotEnoughHistory
from forecasting.forecast import Forecast, peak_bins, steps_in
from forecasting.history import Rates, TrafficHistory
from forecasting.residuals import (
    came_after,
    highest_from,
    leads_to_measure,
    past_origins,
    paths_around,
    scale_of,
    spread,
)
from forecasting.trailing import trailing_highest, trailing_means

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class LastValue:
    """The last measured rate, with quantiles from how far it moved before over the same lead.

    After a gap the last measurement is older than the history's end, and the spread
    is that of the longer lead.

    >>> history = TrafficHistory(start_s=0.0, step_s=60.0, rates=np.full(100, 7.0))
    >>> LastValue().forecast(history, horizon_s=120.0).path(0.95).tolist()
    [7.0, 7.0]
    """

    @property
    def name(self) -> str:
        return "last-value"

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        tail = _last_day(history, horizon_s, self.name)
        return _held(self.name, history, tail, horizon_s, points=tail, peaks=tail)


@dataclass(frozen=True, slots=True)
class MeanAndMax:
    """The mean of the last `window_s`; for peaks, halfway from there to the highest of it.

    A mean is steadier than the last value where counts are small; the highest rate
    seen lately says how far single bins stand out.

    >>> history = TrafficHistory(start_s=0.0, step_s=60.0, rates=np.tile([6.0, 7.0, 8.0], 50))
    >>> MeanAndMax().forecast(history, horizon_s=60.0).path(0.5).round(2).tolist()
    [7.0]
    """

    window_s: float = 1800.0

    @property
    def name(self) -> str:
        return "mean-max"

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        tail = _last_day(history, horizon_s, self.name)
        window = max(1, round(self.window_s / history.step_s))
        means = trailing_means(tail, window)[1:]
        peaks = 0.5 * (means + trailing_highest(tail, window))
        return _held(self.name, history, tail, horizon_s, points=means, peaks=peaks)


def _last_day(history: TrafficHistory, horizon_s: float, model: str) -> Rates:
    """Up to the last measured bin: a day of origins is enough, and a longer history must not cost more."""
    step_s = history.step_s
    end = len(history.rates) - history.bins_since_last
    tail = history.rates[:end][-(round(DAY_S / step_s) + 2 * steps_in(horizon_s, step_s) + 1) :]
    if np.isnan(tail).all():  # nothing was measured, or there is no bin
        raise NotEnoughHistory(model, have_s=0.0, need_s=step_s)
    return tail


def _held(
    model: str, history: TrafficHistory, tail: Rates, horizon_s: float, *, points: Rates, peaks: Rates
) -> Forecast:
    """Hold the last of `points` (and of `peaks`); `points[i]` was known when bin i closed."""
    step_s = history.step_s
    steps, width = steps_in(horizon_s, step_s), peak_bins(step_s, horizon_s)
    gap = history.bins_since_last
    level = float(np.nanmean(tail))
    leads = leads_to_measure(steps)
    origins = past_origins(0, len(tail) - 2)
    bands = []
    for known, came_by_bin in ((points, tail), (peaks, highest_from(tail, width))):
        then, came = known[origins], came_after(came_by_bin, origins, gap + leads)
        offsets = spread((came - then) / scale_of(then, level), leads, steps)
        point = np.full(steps, known[-1])
        bands.append(paths_around(point, offsets * scale_of(point, level)))
    return Forecast(
        issued_at_s=history.end_s,
        step_s=step_s,
        paths=bands[0],
        peaks=np.maximum(bands[1], bands[0]),
        peak_s=width * step_s,
        model=model,
        data_age_s=gap * step_s,
    )
