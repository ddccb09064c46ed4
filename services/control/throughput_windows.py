"""From what a tick sees to the windows that the throughput model learns from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import fmean

from estimator.throughput import Guess, ResourceLoad, StepTimes, ThroughputWindow
from estimator.throughput.window import RATE_MAX
from services.control.learned import Gathered, Throughput
from services.control.types import Observation, WorkerPhase, WorkerReport

WINDOW_S = 20.0
"""Shorter windows measure the grain of clocks and batches more than the workers."""
WELL_KNOWN = 5.0
"""Windows after which a pool size is known well."""
WELL_KNOWN_WINDOW_S = 60.0
PROGRESS_WINDOW_S = 30.0
"""Without telemetry X comes from the meter, which looks back some seconds itself."""
PROGRESS_SETTLES_S = 10.0
"""For so long after a resize the meter still tells of the size before, or of workers that had not begun."""
WAITING_S = 10.0
"""A lag of this many seconds of training keeps all workers supplied; a few are always under way."""
EVEN = 1.5
"""Progress of one tick is no more than this many times that of another, unless it is committed in lumps."""
BUSY_MAX = 1.02
"""Busy fractions this little above 1 are the grain of a clock, not a lie."""


def throughput_seen(
    before: Throughput, seen: Observation, ready: tuple[str, ...], guess: Guess, *, partitions: int | None
) -> Throughput:
    """One tick more; now and then a window is full, and the model learns from it.

    `partitions` is the most workers that can train, where leases are off. A pool of more than one
    GPU type at once teaches nothing: whose speed would it be?
    """
    gathered, lies = _gathered(before.gathered, seen, ready)
    before = replace(before, refused=before.refused + lies) if lies else before
    # A window of the tick in which the size changed shows neither; it tells the model of the resize.
    resized = before.gathered.since_s is not None and before.gathered.ready != len(ready)
    if not resized and not _is_full(before, gathered, seen.at_s):
        return Throughput(before.types, before.gpu_type, gathered, guess, before.refused)
    kinds = {worker.gpu_type for worker in seen.pool.workers if worker.phase is WorkerPhase.READY}
    begun = Gathered(since_s=seen.at_s, ready=len(ready))
    first = resized and before.gathered.ready == 0  # workers that have hardly begun are not slow workers
    if len(kinds) != 1 or first:
        return Throughput(before.types, before.gpu_type, begun, guess, before.refused)
    window = _window(gathered, seen, partitions=partitions, gpu_type=kinds.pop())
    return Throughput(before.types.seen(window, guess), window.gpu_type, begun, guess, before.refused)


def can_be(report: WorkerReport) -> bool:
    """Whether a worker's busy fraction and speed are numbers that can be; else all of it is passed over."""
    return 0 <= report.busy <= BUSY_MAX and 0 <= report.rate_per_busy_s <= RATE_MAX


def _gathered(before: Gathered, seen: Observation, ready: tuple[str, ...]) -> tuple[Gathered, int]:
    """One tick more, and how many workers told what cannot be."""
    if before.ready != len(ready):
        before = Gathered(since_s=before.since_s, ready=len(ready))
    traffic = seen.traffic
    since_s = seen.at_s if before.since_s is None else before.since_s
    settled = seen.at_s - since_s >= PROGRESS_SETTLES_S
    waiting = not traffic.degraded and traffic.lag > WAITING_S * max(traffic.trained_per_s, 1e-9)
    busy, rate, told, lies, members = 0.0, 0.0, 0, 0, set(ready)
    for report in seen.reports:
        share, speed = report.busy, report.rate_per_busy_s
        if not (0 <= share <= BUSY_MAX and 0 <= speed <= RATE_MAX):  # as `can_be`
            lies += 1
        elif report.worker in members:
            busy += share
            rate += share * speed
            told += 1
    trained, least, most = traffic.trained_per_s, before.trained_least, before.trained_most
    if settled:
        least, most = min(least, trained) if before.ticks else trained, max(most, trained)
    # Those that did not report are taken for the mean of those that did.
    scale = len(ready) / told if told else 0.0
    gathered = Gathered(
        since_s,
        before.ready,
        before.ticks + settled,
        before.trained_per_s + (trained if settled else 0.0),
        least,
        most,
        before.waiting and waiting,
        before.told + (told > 0),
        before.all_told and told == len(ready),
        before.busy + scale * busy,
        before.rate + scale * rate,
    )
    return gathered, lies


def _is_full(before: Throughput, gathered: Gathered, at_s: float) -> bool:
    """Whether enough time has passed; a first report is a window, and a clock set back ends one."""
    if before.gathered.since_s is None:
        return gathered.told > 0
    enough_s = _enough_s(before, gathered.ready) if gathered.told else PROGRESS_WINDOW_S
    return not 0 <= at_s - before.gathered.since_s < enough_s


def _enough_s(before: Throughput, ready: int) -> float:
    """What is known well is looked at less often, which costs less and drowns more noise."""
    model = before.types.models.get(before.gpu_type)
    if model is None or model.knowledge.trial is not None or not model.knowledge.rows:
        return WINDOW_S
    latest = model.knowledge.rows[0]
    known = latest.workers == ready and latest.count >= WELL_KNOWN
    return WELL_KNOWN_WINDOW_S if known else WINDOW_S


def _window(
    gathered: Gathered, seen: Observation, *, partitions: int | None, gpu_type: str
) -> ThroughputWindow:
    told = gathered.told
    progress = gathered.trained_per_s / gathered.ticks if gathered.ticks else None
    reports = [report for report in seen.reports if can_be(report)]
    batches = {report.batch for report in reports if report.batch is not None}
    return ThroughputWindow(
        at_s=seen.at_s,
        ready=gathered.ready,
        samples_per_s=gathered.rate / told if told else progress or 0.0,
        busy=gathered.busy / told if told else None,
        saturated=gathered.waiting,
        progress_per_s=progress,
        progress_compares=gathered.all_told and gathered.trained_most <= EVEN * gathered.trained_least,
        batch=batches.pop() if len(batches) == 1 else None,
        steps=StepTimes.mean_of([report.steps for report in reports if report.steps is not None]),
        resources=_mean_loads(load for report in reports for load in report.resources),
        partitions=partitions,
        gpu_type=gpu_type,
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
