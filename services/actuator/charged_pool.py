"""Workers of a platform that keeps its own record: containers of a Docker engine, actors of a Ray cluster.

All truth is on the platform: the workers, and what was asked for, so a controller needs no disk, and any
controller that reaches the platform can go on from there.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TypeVar

import structlog

from services.actuator.charge import IntentMoved
from services.actuator.charged_supervision import Supervising
from services.actuator.lead_time import LeadTime
from services.actuator.tending import Tended, TendedPool
from services.control.errors import PoolUnavailable, Rejected
from services.control.types import PoolResize, PoolState

_KILLED_WITHIN_S = 20.0

T = TypeVar("T")
log = structlog.get_logger()


class ChargedPool(TendedPool["_Running"]):
    """Supervises in a thread of its own: platforms of this kind are asked by blocking calls.

    Only the controller that leads looks at its pool: whoever looks takes the supervision, and one
    that was superseded leaves the workers alone until it is looked at again. While the lead
    changes, a pass of the one may run into a pass of the other: both follow what is written on
    the platform, ids are used up there before a worker has one, and a worker too many is asked to
    leave. Workers outlive the controller; the next one goes on with them.
    """

    @abstractmethod
    def _reach(self) -> Supervising:
        """Reach the platform; blocking. Raises PoolUnavailable."""

    async def _begin(self) -> _Running:
        """Workers are found at the first look."""
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"pool-{self._job}")
        try:
            running = await asyncio.get_running_loop().run_in_executor(thread, self._assemble, thread)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        running.task = asyncio.create_task(self._supervise(running), name=f"supervise {self._job}")
        return running

    async def close(self, *, keep_workers: bool = True, within_s: float | None = None) -> None:
        """Stop supervising. Workers stay, or get `within_s` to leave and are killed then."""
        running = self._end()
        if running is None:
            return
        try:
            await running.stop_task()
            if not keep_workers:
                await self._end_workers(running, self._tending.drain_s if within_s is None else within_s)
        finally:
            # Behind whatever the thread is at: no worker is made after the pool is closed.
            await running.call(running.supervision.close)
            running.thread.shutdown(wait=False)

    async def observe(self) -> PoolState:
        """The pool as it was at the last pass; after a time without one, a pass is made first."""
        running = self._open()
        stale = time.monotonic() - running.passed_s > 3 * self._tending.poll_s
        running.used_s = time.monotonic()
        if stale:
            await self._try_pass(running)
        if running.fault:
            raise PoolUnavailable(running.fault)
        return running.state

    async def resize(self, request: PoolResize) -> None:
        """Write down the size; the supervision brings it about.

        Raises Fenced, Rejected, and PoolUnavailable when it cannot be written down.
        """
        running = self._open()
        await running.call(running.supervision.ask, request)
        running.state = replace(running.state, requested=request.workers)
        running.used_s = time.monotonic()
        running.wake.set()

    def lead_times(self) -> tuple[LeadTime, ...]:
        """The latest starts, asked to ready, oldest first."""
        return self._open().supervision.lead_times()

    def _assemble(self, thread: ThreadPoolExecutor) -> _Running:
        return _Running(supervision=self._reach(), thread=thread)

    async def _supervise(self, running: _Running) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._tending.poll_s):
                    await running.wake.wait()
            running.wake.clear()
            await self._try_pass(running)

    async def _try_pass(self, running: _Running) -> None:
        """One pass; what hinders it is told by `observe()` until a pass succeeds."""
        supervised = running.supervision.active
        make_pass = partial(running.supervision.make_pass, claim=running.used_s > running.superseded_s)
        try:
            running.state = await running.call(make_pass, self._tending.now())
        except IntentMoved:
            running.wake.set()  # another controller came first: look again at once
            return
        except (PoolUnavailable, Rejected) as error:
            if not running.fault:
                log.warning("supervision_hindered", job=self._job, error=str(error))
            running.fault = f"{self._name} cannot be supervised: {error}"
        else:
            running.fault = ""
        running.passed_s = time.monotonic()
        if supervised and not running.supervision.active:
            running.superseded_s = time.monotonic()
            log.info("pool_superseded", job=self._job)

    async def _end_workers(self, running: _Running, within_s: float) -> None:
        deadline_s = time.monotonic() + within_s
        await running.call(running.supervision.dismiss_all)
        while not running.supervision.empty and time.monotonic() < deadline_s:
            await self._try_pass(running)
            await asyncio.sleep(min(self._tending.poll_s, 0.2))
        deadline_s = time.monotonic() + _KILLED_WITHIN_S
        while not running.supervision.empty and time.monotonic() < deadline_s:
            await running.call(running.supervision.kill_all)
            await asyncio.sleep(0.1)


@dataclass(slots=True, kw_only=True)
class _Running(Tended):
    """What an open pool consists of. All that blocks is done by one thread, one after the other."""

    supervision: Supervising
    thread: ThreadPoolExecutor
    state: PoolState = field(default_factory=lambda: PoolState(requested=0))
    used_s: float = -inf
    superseded_s: float = -inf
    passed_s: float = -inf

    async def call(self, blocking: Callable[..., T], *arguments: object) -> T:
        """Let the thread do it."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, blocking, *arguments)
