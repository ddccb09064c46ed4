"""What the ticks came to: told to the log and the metrics, the latest kept for the API and the view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from services.control.loop import Tick
from services.control.types import Decision, Observation, Reason
from services.controller.metrics import Metrics
from services.settings.scaling import SloSettings

log = structlog.get_logger()

Listener = Callable[[Tick], None]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The latest that is known of one job. `decision` is the last one made, however long ago."""

    job: str
    tick: Tick
    decision: Decision | None
    seen: Observation | None


class Journal:
    """Listens to every tick. Repeated trouble is logged when it begins, changes and ends, not every tick."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._status: dict[str, JobStatus] = {}
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Tell `listener` of every tick from now on."""
        self._listeners.append(listener)

    def status(self, job: str) -> JobStatus | None:
        """None until the job's first tick has ended."""
        return self._status.get(job)

    def forget(self, job: str) -> None:
        """The job was deleted: nothing of it is shown any more."""
        self._status.pop(job, None)
        self._metrics.forget(job)

    def told(self, tick: Tick, *, slo: SloSettings) -> None:
        """Take in one tick."""
        before = self._status.get(tick.job)
        self._status[tick.job] = JobStatus(
            job=tick.job,
            tick=tick,
            decision=tick.decision or (before.decision if before else None),
            seen=tick.seen or (before.seen if before else None),
        )
        self._metrics.ticked(tick, slo)
        self._log(tick, before.tick if before else None)
        for listener in self._listeners:
            listener(tick)

    def _log(self, tick: Tick, before: Tick | None) -> None:
        self._log_leadership(tick, before)
        trouble, earlier = tick.trouble, before.trouble if before else ""
        if trouble and trouble != earlier:
            log.warning("job_degraded", job=tick.job, why=trouble)
        elif earlier and not trouble:
            log.info("job_recovered", job=tick.job, was=earlier)
        if tick.error is None and tick.decision is not None:
            self._log_decision(tick.decision, tick.seen)

    def _log_leadership(self, tick: Tick, before: Tick | None) -> None:
        if tick.following and (before is None or not before.following):
            log.info("following", job=tick.job, why="another controller leads, or leadership is unsure")
        elif not tick.following and before is not None and before.following:
            log.info("leading", job=tick.job)

    def _log_decision(self, decision: Decision, seen: Observation | None) -> None:
        if Reason.WORKERS_LOST in decision.notes:
            log.warning("workers_lost", job=decision.job, decision=decision.id, ready=decision.ready)
        if decision.resize is not None:
            log.info(
                "pool_resized",
                job=decision.job,
                decision=decision.id,
                planned=decision.planned,
                requested=decision.requested,
                ready=decision.ready,
                reason=decision.reason.value,
                forecast=seen.forecast.model if seen and seen.forecast else "",
            )
        else:
            log.debug("pool_kept", job=decision.job, decision=decision.id, reason=decision.reason.value)
