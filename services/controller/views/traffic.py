"""Traffic and progress, and the traffic before, as documents."""

from __future__ import annotations

from typing import Self

import numpy as np

from forecasting.history import TrafficHistory
from services.control.types import Observation
from services.controller.views.view import View

POINTS_MAX = 480
"""Points of a series: what a chart can show."""


class HistoryView(View):
    """Mean arrival rates of equal bins; a bin that was not measured is null."""

    start_s: float
    step_s: float
    rates: list[float | None]

    @classmethod
    def of(cls, history: TrafficHistory, *, span_s: float) -> Self:
        """The last `span_s` of it, with bins joined so that there are at most POINTS_MAX."""
        bins = min(len(history.rates), max(1, round(span_s / history.step_s)))
        rates = history.rates[len(history.rates) - bins :]
        width = max(1, -(-len(rates) // POINTS_MAX))
        usable = len(rates) - len(rates) % width
        rates = rates[len(rates) - usable :].reshape(-1, width)
        known = ~np.isnan(rates)
        counts = known.sum(axis=1)
        totals = np.where(known, rates, 0.0).sum(axis=1)
        means = [float(t / c) if c else None for t, c in zip(totals, counts, strict=True)]
        return cls(
            start_s=history.end_s - usable * history.step_s, step_s=history.step_s * width, rates=means
        )


class TrafficView(View):
    """Traffic and progress as last measured, and the traffic before."""

    at_s: float
    rate_per_s: float
    trained_per_s: float
    lag: int
    """Samples that arrived and are not trained."""
    lag_s: float
    """Age of the oldest of them."""
    partitions: int
    partition_rates: list[float]
    partition_lags: list[int]
    lost: int
    """Samples that Kafka deleted before they were trained."""
    degraded: str
    history: HistoryView | None

    @classmethod
    def of(cls, seen: Observation, *, span_s: float) -> Self:
        """The reading behind the latest decision."""
        traffic = seen.traffic
        history = seen.history
        return cls(
            at_s=traffic.at_s,
            rate_per_s=traffic.rate_per_s,
            trained_per_s=traffic.trained_per_s,
            lag=traffic.lag,
            lag_s=traffic.lag_s,
            partitions=len(traffic.partition_rates),
            partition_rates=list(traffic.partition_rates),
            partition_lags=list(traffic.partition_lags),
            lost=traffic.lost,
            degraded=traffic.degraded,
            history=HistoryView.of(history, span_s=span_s) if history and len(history.rates) else None,
        )
