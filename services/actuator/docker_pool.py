"""Workers as containers of a Docker engine, found by label.

All truth is in the engine: the workers' containers, and what was asked for (see `docker_intents`),
so a controller needs no disk, and any controller that reaches the engine can go on from there. Who
would rather have what was asked for in a directory names one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import structlog

from services.actuator.backoff import Backoff
from services.actuator.docker_engine import ContainerSpec, DockerEngine
from services.actuator.docker_intents import IntentMoved
from services.actuator.docker_supervision import DockerSupervision
from services.actuator.lead_time import LeadTime
from services.actuator.moment import Moment
from services.control.errors import PoolUnavailable, Rejected
from services.control.types import PoolCapabilities, PoolResize, PoolState, Victims

_KILLED_WITHIN_S = 20.0

T = TypeVar("T")
log = structlog.get_logger()


class DockerPool:
    """A `WorkerPool` of containers.

    A worker makes the file named by `PENSTOCK_READY_FILE` in its container once it is ready,
    leaves on SIGTERM within `drain_s`, and is killed after that. Containers outlive the
    controller; the next one goes on with them.

    Only the controller that leads looks at its pool: whoever looks takes the supervision, and one
    that was superseded leaves the workers alone until it is looked at again. While the lead
    changes, a pass of the one may run into a pass of the other: both follow what is written in
    the engine, ids are used up there before a worker has one, and a worker too many is asked to
    leave.
    """

    def __init__(
        self,
        job: str,
        spec: ContainerSpec,
        *,
        connect: Callable[[], DockerEngine] = DockerEngine,
        intents_dir: Path | None = None,
        drain_s: float = 30.0,
        backoff: Backoff | None = None,
        poll_s: float = 1.0,
        now: Callable[[], Moment] = Moment.now,
    ) -> None:
        self._job = job
        self._spec = spec
        self._connect = connect
        self._intents_dir = intents_dir
        self._drain_s = drain_s
        self._backoff = backoff or Backoff()
        self._poll_s = poll_s
        self._now = now
        self._running: _Running | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Reach the engine. Workers are found at the first look. Raises PoolUnavailable."""
        if self._running is not None:
            raise RuntimeError(f"the pool of job {self._job} is already open")
        thread = ThreadPoolExecutor(1, thread_name_prefix=f"docker-{self._job}")
        try:
            running = await asyncio.get_running_loop().run_in_executor(thread, self._assemble, thread)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        running.task = asyncio.create_task(self._supervise(running), name=f"supervise {self._job}")
        self._running = running

    async def close(self, *, keep_workers: bool = True, within_s: float | None = None) -> None:
        """Stop supervising. Workers stay, or get `within_s` to leave and are killed then."""
        running, self._running = self._running, None
        if running is None:
            return
        try:
            await running.stop_task()
            if not keep_workers:
                await self._end_workers(running, self._drain_s if within_s is None else within_s)
        finally:
            # Behind whatever the thread is at: no container is made after the pool is closed.
            await running.call(running.supervision.close)
            running.thread.shutdown(wait=False)

    async def observe(self) -> PoolState:
        """The pool as it was at the last pass; after a time without one, a pass is made first."""
        running = self._open()
        stale = time.monotonic() - running.passed_s > 3 * self._poll_s
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

    def capabilities(self) -> PoolCapabilities:
        return PoolCapabilities(hot_join=True, scale_to_zero=True, victims=Victims.ANY)

    def lead_times(self) -> tuple[LeadTime, ...]:
        """The latest starts, asked to ready, oldest first."""
        return self._open().supervision.lead_times()

    def _assemble(self, thread: ThreadPoolExecutor) -> _Running:
        engine = self._connect()
        supervision = DockerSupervision(
            self._job,
            self._spec,
            engine,
            backoff=self._backoff,
            drain_s=self._drain_s,
            intents_dir=self._intents_dir,
        )
        return _Running(supervision, thread)

    def _open(self) -> _Running:
        running = self._running
        if running is None:
            raise PoolUnavailable(f"the pool of job {self._job} is not open")
        if running.task is not None and running.task.done():
            running.task.result()  # a mistake in the pool itself: let it be seen
        return running

    async def _supervise(self, running: _Running) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await running.wake.wait()
            running.wake.clear()
            await self._try_pass(running)

    async def _try_pass(self, running: _Running) -> None:
        """One pass; what hinders it is told by `observe()` until a pass succeeds."""
        supervised = running.supervision.active
        make_pass = partial(running.supervision.make_pass, claim=running.used_s > running.superseded_s)
        try:
            running.state = await running.call(make_pass, self._now())
        except IntentMoved:
            running.wake.set()  # another controller came first: look again at once
            return
        except (PoolUnavailable, Rejected) as error:
            if not running.fault:
                log.warning("supervision_hindered", job=self._job, error=str(error))
            running.fault = f"the pool of job {self._job} cannot be supervised: {error}"
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
            await asyncio.sleep(min(self._poll_s, 0.2))
        deadline_s = time.monotonic() + _KILLED_WITHIN_S
        while not running.supervision.empty and time.monotonic() < deadline_s:
            await running.call(running.supervision.kill_all)
            await asyncio.sleep(0.1)


@dataclass(slots=True)
class _Running:
    """What an open pool consists of. All that blocks is done by one thread, one after the other."""

    supervision: DockerSupervision
    thread: ThreadPoolExecutor
    state: PoolState = field(default_factory=lambda: PoolState(requested=0))
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    used_s: float = -inf
    superseded_s: float = -inf
    passed_s: float = -inf
    fault: str = ""

    async def call(self, blocking: Callable[..., T], *arguments: object) -> T:
        """Let the thread do it."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, blocking, *arguments)

    async def stop_task(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
            if not self.task.cancelled():
                self.task.result()
