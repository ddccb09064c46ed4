"""Observations and policies for tests of the tick, made with as few words as possible."""

from __future__ import annotations

import numpy as np

from estimator.capacity import Capacity
from estimator.rules import rule_named
from estimator.situation import Limits, Slo
from forecasting.forecast import LEVELS, Forecast
from services.control.types import (
    Mode,
    Observation,
    Policy,
    PoolState,
    Shuffle,
    TrafficReading,
    Worker,
    WorkerPhase,
    WorkerReport,
)


def a_policy(
    *,
    rule: str = "penstock",
    options: dict[str, float] | None = None,
    workers_min: int = 1,
    workers_max: int = 10,
    mode: Mode = Mode.ACT,
    shuffle: Shuffle = Shuffle.LEASES,
    forecast_model: str = "",
) -> Policy:
    """A worker trains 100/s; no contention, so that expected sizes can be counted on fingers."""
    return Policy(
        slo=Slo(60.0, 0.01),
        limits=Limits(workers_min, workers_max),
        rule=rule_named(rule, options or {"utilisation": 1.0, "settle_s": 60.0}),
        capacity_prior=Capacity(100.0, contention=0.0),
        lead_time_s=60.0,
        mode=mode,
        shuffle=shuffle,
        forecast_model=forecast_model,
    )


def a_pool(requested: int, *, ready: int | None = None, failures: int = 0) -> PoolState:
    """Workers w-0, w-1, ...: the first `ready` of them train, the others start."""
    trained = requested if ready is None else ready
    workers = tuple(
        Worker(f"w-{i}", WorkerPhase.READY if i < trained else WorkerPhase.STARTING, started_at_s=float(i))
        for i in range(requested)
    )
    return PoolState(requested=requested, workers=workers, failures=failures)


def an_observation(
    *,
    at_s: float = 1000.0,
    rate: float = 100.0,
    lag: int = 0,
    pool: PoolState | None = None,
    coming: float | None = None,
    measured_at_s: float | None = None,
    reports: tuple[WorkerReport, ...] = (),
    partitions: int = 4,
    fence: int = 7,
) -> Observation:
    """`coming` is a flat forecast of that rate; none when left out."""
    forecast = None
    if coming is not None:
        paths = np.full((len(LEVELS), 30), coming)
        forecast = Forecast(issued_at_s=at_s, step_s=60.0, paths=paths, model="flat")
    return Observation(
        job="clicks",
        at_s=at_s,
        traffic=TrafficReading(
            at_s=at_s if measured_at_s is None else measured_at_s,
            rate_per_s=rate,
            trained_per_s=rate,
            lag=lag,
            lag_s=lag / max(rate, 1.0),
            partition_rates=(rate / partitions,) * partitions,
            partition_lags=(lag // partitions,) * partitions,
        ),
        pool=pool or a_pool(1),
        reports=reports,
        fence=fence,
        forecast=forecast,
    )
