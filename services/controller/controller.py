"""The controller: one loop per job, each in a task of its own, while this process leads."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry

from services.control.errors import PoolUnavailable, StateUnavailable, TrafficUnavailable
from services.control.loop import JobLoop, Ports, Tick
from services.control.ports import Leadership, StateStore
from services.control.types import Decision
from services.controller.journal import JobStatus, Journal
from services.controller.metrics import Metrics
from services.controller.readiness import Readiness
from services.settings import JobSettings, Settings

log = structlog.get_logger()

_RESTART_AFTER_S = 5.0
"""A job whose loop broke is opened again after this long; the others never notice."""


class Wiring(Protocol):
    """Where a controller gets its adapters from."""

    @property
    def leadership(self) -> Leadership: ...

    @property
    def store(self) -> StateStore: ...

    def store_trouble(self) -> str:
        """Why the store cannot be used, in words; empty when it can."""
        ...

    def open_job(self, name: str, job: JobSettings) -> AbstractAsyncContextManager[Ports]:
        """The ports of one job, closed with the context."""
        ...


class Controller:
    """Runs the jobs of its settings until it is cancelled."""

    def __init__(self, settings: Settings, wiring: Wiring, registry: CollectorRegistry) -> None:
        self.journal = Journal(Metrics(registry))
        self._settings = settings
        self._wiring = wiring

    @property
    def jobs(self) -> dict[str, JobSettings]:
        """The jobs by name."""
        return dict(self._settings.jobs)

    async def run(self) -> None:
        """Every job in a task of its own: one that breaks does not touch another."""
        async with asyncio.TaskGroup() as tasks:
            for name, job in self._settings.jobs.items():
                tasks.create_task(self._keep_running(name, job), name=f"job {name}")

    async def _keep_running(self, name: str, job: JobSettings) -> None:
        while True:
            try:
                await self._run_job(name, job)
            except Exception:
                log.exception("job_broke", job=name, again_in_s=_RESTART_AFTER_S)
                await asyncio.sleep(_RESTART_AFTER_S)

    async def _run_job(self, name: str, job: JobSettings) -> None:
        await self._lead_first()
        async with self._wiring.open_job(name, job) as ports:
            policy = job.policy(stale_after_s=self._settings.controller.stale_after_s)
            tell = partial(self.journal.told, slo_s=job.slo.fresh_within_s)
            await JobLoop(name, policy, ports, tell=tell).run(interval_s=self._settings.controller.tick_s)

    async def _lead_first(self) -> None:
        """A follower opens nothing: two supervisors of one pool would both replace a dead worker."""
        while self._wiring.leadership.token() is None:  # noqa: ASYNC110 - it is gained and lost by the clock
            await asyncio.sleep(min(1.0, self._settings.controller.tick_s))

    def status(self, job: str) -> JobStatus | None:
        """The latest of one job."""
        return self.journal.status(job)

    async def decisions(self, job: str, *, limit: int) -> tuple[Decision, ...]:
        """The latest decisions of a job, newest first."""
        return await self._wiring.store.decisions(job, limit=limit)

    def readiness(self) -> Readiness:
        """Which dependency is in the way, by what the latest ticks ran into."""
        troubles = {"redis": self._wiring.store_trouble() or "ok", "kafka": "ok", "pool": "ok"}
        for name in self._settings.jobs:
            status = self.journal.status(name)
            if status is not None:
                troubles |= {part: f"{name}: {why}" for part, why in _blamed(status.tick).items()}
        return Readiness(self._wiring.leadership.token() is not None, troubles)


def _blamed(tick: Tick) -> dict[str, str]:
    """Which dependency a tick's trouble came from."""
    if isinstance(tick.error, StateUnavailable):
        return {"redis": str(tick.error)}
    if isinstance(tick.error, TrafficUnavailable):
        return {"kafka": str(tick.error)}
    if isinstance(tick.error, PoolUnavailable):
        return {"pool": str(tick.error)}
    if tick.seen is None:
        return {}
    found = {"kafka": tick.seen.traffic.degraded, "pool": tick.seen.pool.trouble}
    return {part: why for part, why in found.items() if why}
