"""From what a tick sees to the windows that the throughput model learns from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean

from estimator.throughput import Guess, ResourceLoad, StepTimes, ThroughputWindow
from services.control.learned import Gathered, Throughput
from services.control.types import Observation, WorkerPhase, WorkerReport

WINDOW_S = 10.0
"""Shorter windows measure the grain of clocks and batches more than the workers."""
PROGRESS_WINDOW_S = 30.0
"""Without telemetry X comes from the meter, which looks back some seconds itself."""
WAITING_S = 10.0
"""A lag of this many seconds of training keeps all workers supplied; a few are always under way."""
BUSY_MAX = 1.02
"""Busy fractions this little above 1 are the grain of a clock, not a lie."""


def throughput_seen(
    before: Throughput, seen: Observation, guess: Guess, *, partitions: int | None
) -> Throughput:
    """One tick more; now and then a window is full, and the model learns from it.

    `partitions` is the most workers that can train, where leases are off. A pool of more than one
    GPU type at once teaches nothing: whose speed would it be?
    """
    ready = {worker.id: worker.gpu_type for worker in seen.pool.workers if worker.phase is WorkerPhase.READY}
    kinds = set(ready.values())
    if len(kinds) != 1:
        return replace(before, gathered=Gathered(), guess=guess)
    (kind,) = kinds
    reports = [report for report in seen.reports if report.worker in ready and can_be(report)]
    gathered = _gathered(before.gathered, seen, len(ready), reports)
    # A window of the tick in which the size changed shows neither; it tells the model of the resize.
    resized = before.gathered.since_s is not None and before.gathered.ready != len(ready)
    if not resized and not _is_full(gathered, seen.at_s):
        return Throughput(before.types, kind, gathered, guess)
    window = _window(gathered, seen, reports, partitions=partitions, gpu_type=kind)
    begun = Gathered(since_s=seen.at_s, ready=len(ready))
    return Throughput(before.types.seen(window, guess), kind, begun, guess)


def can_be(report: WorkerReport) -> bool:
    """Whether a worker's busy fraction and speed are numbers that can be; else all of it is passed over."""
    return 0 <= report.busy <= BUSY_MAX and 0 <= report.rate_per_busy_s < float("inf")


def _gathered(before: Gathered, seen: Observation, ready: int, reports: list[WorkerReport]) -> Gathered:
    if before.ready != ready:
        before = Gathered(since_s=before.since_s, ready=ready)
    traffic = seen.traffic
    waiting = not traffic.degraded and traffic.lag > WAITING_S * max(traffic.trained_per_s, 1e-9)
    busy = rate = 0.0
    for report in reports:
        busy += min(report.busy, 1.0)
        rate += min(report.busy, 1.0) * report.rate_per_busy_s
    # Those that did not report are taken for the mean of those that did.
    scale = ready / len(reports) if reports else 0.0
    return Gathered(
        before.since_s,
        ready,
        before.ticks + 1,
        before.trained_per_s + traffic.trained_per_s,
        before.waiting and waiting,
        before.told + bool(reports),
        before.busy + scale * busy,
        before.rate + scale * rate,
    )


def _is_full(gathered: Gathered, at_s: float) -> bool:
    """Whether enough time has passed; a first report is a window, and a clock set back ends one."""
    if gathered.since_s is None:
        return True
    enough_s = WINDOW_S if gathered.told else PROGRESS_WINDOW_S
    return not 0 <= at_s - gathered.since_s < enough_s


def _window(
    gathered: Gathered,
    seen: Observation,
    reports: list[WorkerReport],
    *,
    partitions: int | None,
    gpu_type: str,
) -> ThroughputWindow:
    told = gathered.told
    batches = {report.batch for report in reports if report.batch is not None}
    return ThroughputWindow(
        at_s=seen.at_s,
        ready=gathered.ready,
        samples_per_s=gathered.rate / told if told else gathered.trained_per_s / gathered.ticks,
        busy=gathered.busy / told if told else None,
        saturated=gathered.waiting,
        batch=batches.pop() if len(batches) == 1 else None,
        steps=_mean_steps([report.steps for report in reports if report.steps is not None]),
        resources=_mean_loads(load for report in reports for load in report.resources),
        partitions=partitions,
        gpu_type=gpu_type,
    )


def _mean_steps(steps: list[StepTimes]) -> StepTimes | None:
    if not steps:
        return None
    return StepTimes(
        fmean(step.input_s for step in steps),
        fmean(step.compute_s for step in steps),
        fmean(step.wait_s for step in steps),
    )


def _mean_loads(loads: Iterable[ResourceLoad]) -> tuple[ResourceLoad, ...]:
    """Each shared resource once: workers relay what it last said of itself."""
    by_name: dict[str, list[ResourceLoad]] = {}
    for load in loads:
        by_name.setdefault(load.name, []).append(load)
    return tuple(_mean_load(name, told) for name, told in by_name.items())


def _mean_load(name: str, told: list[ResourceLoad]) -> ResourceLoad:
    known = [load.service_cv2 for load in told if load.service_cv2 is not None]
    return ResourceLoad(name, fmean(load.busy for load in told), fmean(known) if known else None)
