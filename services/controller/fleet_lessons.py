"""What jobs teach about the next: the prior of a group, and what a worker should be made of."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

import numpy as np

from estimator.fleet.group_history import HOURS, JobRecord
from estimator.fleet.worker_shape import WorkerShape, WorkerTimes, shaped
from forecasting.history import TrafficHistory
from services.control.types import Decision, Observation, WorkerReport

HOUR_S = 3_600.0
LEAST = 1e-6
"""Of a step, what workers share at the least: a record without any would promise endless growth."""


def record_of(group: str, decision: Decision, history: TrafficHistory) -> JobRecord | None:
    """What was learned of a job that runs; None for one that has not trained yet.

    Z and D are those of the queue where telemetry shows it; else a lone worker's time for a sample, split by
    the contention that was fitted.
    """
    throughput = decision.state.throughput
    model = throughput.model
    if not group or not model.knowledge.rows:
        return None
    fitted, batch = model.knowledge.fitted, model.knowledge.batch
    if fitted.queue is not None and batch is not None:
        own_s, shared_s = fitted.queue.own_s, fitted.queue.demand_s
    else:
        cycle_s, batch = 1.0 / max(model.samples_per_s(1), 1e-9), 1
        own_s, shared_s = cycle_s * (1.0 - fitted.contention), cycle_s * fitted.contention
    cycle_s = own_s + shared_s
    return JobRecord(
        group,
        throughput.gpu_type,
        own_s=max(own_s, LEAST * cycle_s),
        shared_s=max(shared_s, LEAST * cycle_s),
        batch=batch,
        hourly=hourly_of(history),
        seen_s=max(HOUR_S, sum(row.count for row in model.knowledge.rows) * 60.0),
    )


def hourly_of(history: TrafficHistory) -> tuple[float, ...]:
    """Mean traffic by hour of the day (UTC); the mean of all where an hour was never seen.

    >>> past = TrafficHistory(start_s=0.0, step_s=3600.0, rates=np.array([5.0, 7.0]))
    >>> hourly_of(past)[:3]
    (5.0, 7.0, 6.0)
    """
    times = history.start_s + history.step_s * np.arange(len(history.rates))
    hours = (times // HOUR_S).astype(int) % HOURS
    known = ~np.isnan(history.rates)
    if not known.any():
        return (0.0,) * HOURS
    overall = float(history.rates[known].mean())
    means = []
    for hour in range(HOURS):
        rates = history.rates[known & (hours == hour)]
        means.append(float(rates.mean()) if len(rates) else overall)
    return tuple(means)


def worker_advice(
    seen: Observation,
    *,
    gpu_share: float,
    cores: int,
    gpu_price: float,
    core_price: float,
    cores_max: int,
) -> WorkerShape | None:
    """What a worker of the job should be made of, by what its workers report; None where they do not tell.

    Only of workers on a whole GPU or a share of one: how a step spreads over several is not known.
    """
    times = _times(seen.reports, gpu_share, cores) if gpu_share <= 1 else None
    if times is None:
        return None
    now = (gpu_share, cores)
    return shaped(times, gpu_price=gpu_price, core_price=core_price, cores_max=max(cores_max, cores), now=now)


def _times(reports: Iterable[WorkerReport], gpu_share: float, cores: int) -> WorkerTimes | None:
    told = [report for report in reports if report.steps is not None and report.steps.compute_s > 0]
    if not told:
        return None
    input_s = fmean(report.steps.input_s for report in told if report.steps is not None)
    compute_s = fmean(report.steps.compute_s for report in told if report.steps is not None)
    batches = [report.batch for report in told if report.batch]
    filled = [filling for report in told if (filling := _filling(report)) is not None]
    return WorkerTimes(
        input_core_s=input_s * cores,  # all of it shared: one number of cores cannot tell what is not
        compute_s=compute_s,
        gpu_busy=gpu_share * (fmean(filled) if filled else 1.0),
        batch=max(batches, default=1),
    )


def _filling(report: WorkerReport) -> float | None:
    """How much of what it has a step fills while it computes, by NVML; None where that is not asked.

    NVML tells how busy the GPU was over all of the time; of that, the worker computed for a part.
    """
    steps, load = report.steps, report.gpu
    if steps is None or load is None or load.memory_bytes is None or not report.batch:
        return None
    computing = report.busy * report.rate_per_busy_s / report.batch * steps.compute_s
    return min(1.0, max(load.busy / computing, 0.05)) if computing > 0 else None
