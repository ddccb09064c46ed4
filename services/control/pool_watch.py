"""What a pool does after it was asked: how soon workers train, what a change stops, how often they fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from estimator.lead_time import PoolTimes
from estimator.lead_time.durations import GIVEN_UP
from services.control.learned import PauseWatch, PoolMemory
from services.control.types import Observation, Worker, WorkerPhase

COUNT_EVERY_S = 3600.0
"""Lives of workers are added up this often, or when one dies."""
PAUSE_WATCHED_S = 60.0
TICK_MAX_S = 30.0
TOLD_WITHIN_S = 30.0
"""A platform shows a worker this long after it was asked for, at most."""
OVERDUE = 1.5
"""A start called off says that it was not coming only after this many lead times: one called off at the
tick at which it was due may have been there, and would count as twice as slow as all others.
"""
KEPT_UP_S = 2.0
"""A pool whose oldest sample is younger than this keeps up; a change then shows what it stops."""


def pool_seen(
    before: PoolMemory,
    seen: Observation,
    ready: tuple[str, ...],
    *,
    lead_time_stated_s: float,
    pause_stated_s: float,
    gpu_type: str,
    has_room: bool,
) -> PoolMemory:
    """One tick more. `has_room`: the workers could train what arrives, so that a lag has other causes."""
    times = before.times or PoolTimes(lead_time_stated_s, pause_stated_s)
    if (times.lead_time_stated_s, times.pause_stated_s) != (lead_time_stated_s, pause_stated_s):
        times = replace(times, lead_time_stated_s=lead_time_stated_s, pause_stated_s=pause_stated_s)
    known = times
    awaited: Mapping[str, float] = before.awaited
    failed = 0
    if awaited or len(ready) < len(seen.pool.workers):
        times, awaited, failed = _starts(times, before, seen, gpu_type)
    pause, times = _pause(times, before, seen, changed=ready != before.ready, has_room=has_room)
    died = max(0, seen.pool.failures - before.failures - failed) if before.at_s else 0
    worker_s = before.worker_s + len(before.ready) * max(0.0, seen.at_s - before.at_s)
    if died or worker_s > COUNT_EVERY_S * max(1, len(ready)):
        times, worker_s = times.lived(worker_s, died=died), 0.0
    stated_anew = known is not before.times
    starts_anew = stated_anew or times.starts is not known.starts
    pauses_anew = stated_anew or times.pauses is not known.pauses
    return PoolMemory(
        times=times,
        lead_time_s=times.lead_time_s(gpu_type) if starts_anew else before.lead_time_s,
        lead_times_s=times.lead_times(gpu_type).spread_s if starts_anew else before.lead_times_s,
        pause_s=times.pause_s() if pauses_anew else before.pause_s,
        awaited=awaited,
        ready=ready,
        failures=seen.pool.failures,
        at_s=seen.at_s,
        lag_s=seen.traffic.lag_s,
        worker_s=worker_s,
        pause=pause,
    )


def lead_times(memory: PoolMemory, now_s: float, gpu_type: str) -> tuple[float, tuple[float, ...]]:
    """The lead time to plan with, and equally likely ones where they differ widely.

    No less than what has been waited for already. Long overdue, a start is expected to take as long again:
    else it would look as if it came any moment, for hours. Where others came, that is its own fate and not
    that of all who are asked for now: one pod that finds no GPU is not a platform that has none.
    """
    waited_s = {now_s - asked_at_s for asked_at_s in memory.awaited.values()}
    overdue_s = {waited for waited in waited_s if waited > OVERDUE * memory.lead_time_s}
    if not overdue_s or memory.times is None:
        return max(memory.lead_time_s, *waited_s, 0.0), memory.lead_times_s
    known = memory.times.lead_times(gpu_type)
    if not known.latest:
        return GIVEN_UP * max(overdue_s), ()
    for waited in sorted(overdue_s):
        known = known.given_up(waited)
    spread_s = known.spread_s
    return (spread_s[-1] if spread_s else known.careful_s), spread_s


def _starts(
    times: PoolTimes, before: PoolMemory, seen: Observation, gpu_type: str
) -> tuple[PoolTimes, dict[str, float], int]:
    """Who came, who is still awaited, and how many failed to start."""
    awaited = {w.id: w.started_at_s for w in seen.pool.workers if _comes(w, before)}
    if not before.awaited.keys() - awaited.keys():
        return times, {**awaited, **before.awaited}, 0
    workers = {worker.id: worker for worker in seen.pool.workers}
    failures, failed = seen.pool.failures - before.failures, 0
    trained = {report.worker: report.trained > 0 for report in seen.reports}
    for name, asked_at_s in before.awaited.items():
        worker = workers.get(name)
        waited_s = max(0.0, seen.at_s - asked_at_s)
        if name in awaited:
            awaited[name] = asked_at_s
        elif worker is not None and worker.phase in (WorkerPhase.READY, WorkerPhase.STANDBY):
            if worker.phase is WorkerPhase.READY and not _has_trained(worker, trained, seen):
                awaited[name] = asked_at_s
                continue
            took_s = _took_s(waited_s, seen.at_s - before.at_s)
            times = times.ready(took_s, asked_at_s=asked_at_s, gpu_type=worker.gpu_type)
        elif failures > failed or waited_s > OVERDUE * before.lead_time_s:
            # Failed to start, or called off after far longer than workers take.
            failed += failures > failed
            times = times.given_up(waited_s, asked_at_s=asked_at_s, gpu_type=gpu_type)
    return times, awaited, failed


def _comes(worker: Worker, before: PoolMemory) -> bool:
    """Whether it is on its way for the first time. One asked for long before the last tick, and not awaited
    then, was there: a pod whose probe failed, or whose container was started again, is as old as before."""
    if worker.phase is not WorkerPhase.STARTING:
        return False
    return worker.id in before.awaited or worker.started_at_s >= before.at_s - TOLD_WITHIN_S


def _took_s(waited_s: float, tick_s: float) -> float:
    """It came some time between the tick before and this one; after a long silence, nobody knows when."""
    return max(0.0, waited_s - tick_s / 2) if 0 <= tick_s <= TICK_MAX_S else waited_s


def _has_trained(worker: Worker, trained: dict[str, bool], seen: Observation) -> bool:
    """By its own word; where nobody tells, or nothing waits to be trained, being ready must do."""
    if not trained or seen.traffic.lag == 0:
        return True
    return trained.get(worker.id, False)


def _pause(
    times: PoolTimes, before: PoolMemory, seen: Observation, *, changed: bool, has_room: bool
) -> tuple[PauseWatch | None, PoolTimes]:
    """A change while the pool kept up: by how much the oldest sample aged is how long it stopped."""
    watch, lag_s = before.pause, seen.traffic.lag_s
    if watch is not None:
        watch = replace(watch, lag_most_s=max(watch.lag_most_s, lag_s))
        if not has_room:
            watch = None  # more arrives than can be trained: the lag says nothing of the change
        elif seen.at_s - watch.since_s >= PAUSE_WATCHED_S:
            times = times.paused(_stopped_s(watch))
            watch = None
    elif changed and before.ready and has_room and before.lag_s <= KEPT_UP_S:
        watch = PauseWatch(seen.at_s, before.lag_s, lag_s)
    return watch, times


def _stopped_s(watch: PauseWatch) -> float:
    risen_s = watch.lag_most_s - watch.lag_before_s
    return risen_s if risen_s > KEPT_UP_S / 2 else 0.0
