"""What becomes of a deleted job: its workers drain and go; its history stays unless it is to be forgotten."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import structlog

from services.control.errors import Fenced, PoolUnavailable
from services.control.loop import Ports
from services.control.types import Mode, PoolResize
from services.settings import JobSettings
from services.store.job_record import JobRecord, JobsError
from services.store.jobs import JobStore

log = structlog.get_logger(__name__)

_GRACE_S = 30.0
"""Beyond the pool's own drain time, before its workers are left to whoever runs the platform."""


class Ending(Protocol):
    """What retiring a job needs."""

    def open_job(self, name: str, job: JobSettings) -> AbstractAsyncContextManager[Ports]: ...

    async def forget(self, name: str) -> None: ...


async def retire(record: JobRecord, wiring: Ending, jobs: JobStore) -> None:
    """Drain the pool to nothing, then mark the tombstone: the name is free again.

    The deletion was recorded before; so a controller that dies in between leaves this to the next.
    Raises Fenced, PoolUnavailable, StateUnavailable: try again.
    """
    acts = record.settings.scaling.mode is Mode.ACT and record.settings.pool.kind != "recommend"
    if acts:
        async with wiring.open_job(record.name, record.settings) as ports:
            await _drain(record, ports)
    if record.forget:
        await wiring.forget(record.name)
    try:
        await jobs.put(record.model_copy(update={"retired": True}), expected=record.version)
    except JobsError as error:
        log.info("retirement_overtaken", job=record.name, why=str(error))
        return
    log.info("job_retired", job=record.name, forgotten=record.forget, workers_stopped=acts)


async def _drain(record: JobRecord, ports: Ports) -> None:
    deadline_s = ports.clock.now_s() + record.settings.pool.drain_s + _GRACE_S
    while True:
        fence = ports.leadership.token()
        if fence is None:
            raise Fenced(f"retirement of {record.name}", token=0, newest=0)
        pool = await ports.pool.observe()
        if not pool.workers and pool.requested == 0:
            return
        if pool.requested > 0:
            leaving = tuple(worker.id for worker in pool.workers)
            request = PoolResize(0, decision_id=f"{record.name}-deleted", fence=fence, remove=leaving)
            await ports.pool.resize(request)
        if ports.clock.now_s() > deadline_s:
            raise PoolUnavailable(f"{len(pool.workers)} workers of {record.name} do not leave")
        await asyncio.sleep(0.2)
