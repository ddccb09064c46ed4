"""Workers as processes of this machine, supervised, and found again by the next controller.

The pool's truth is on disk (see `run_files`): a resize writes down what is wanted, then a
supervision task brings the processes there, pass by pass, and after a crash the next controller
goes on from the same files. Of several pool objects on one directory (a standby controller, a
successor) one supervises at a time: the one that was asked last, or the first to find the
supervisor dead or silent.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from services.actuator.crew import Crew
from services.actuator.launcher import Launcher, WorkerCommand
from services.actuator.lead_time import LeadTime
from services.actuator.process_platform import ProcessPlatform
from services.actuator.run_files import RunDirBusy, RunFiles
from services.actuator.supervision import Supervision
from services.actuator.tending import Tended, TendedPool, Tending
from services.actuator.worker_logs import WorkerLogs
from services.control.errors import PoolUnavailable
from services.control.types import PoolResize, PoolState

_LOCK_WITHIN_S = 2.0
_KILLED_WITHIN_S = 5.0

TENDING = Tending()

log = structlog.get_logger()


class ProcessPool(TendedPool["_Running"]):
    """A `WorkerPool` of local processes.

    A worker makes the file named by `PENSTOCK_READY_FILE` once it is ready, leaves on SIGTERM
    within `drain_s`, and is killed after that. SIGTERM comes once, unless a controller dies just
    after sending it, or the worker was never ready.

    `owned=False`: workers survive the controller and are adopted by the next pool on `run_dir`.
    `owned=True`: workers also get `PENSTOCK_OWNER_FD`, a pipe that reads end-of-file once this
    process is gone, however it went, and leave then; closing the pool ends them.
    """

    def __init__(
        self,
        job: str,
        *,
        command: Sequence[str],
        run_dir: Path,
        env: Mapping[str, str] | None = None,
        owned: bool = False,
        tending: Tending = TENDING,
    ) -> None:
        super().__init__(job, tending)
        self._command = WorkerCommand(job, tuple(command), {**(env or {}), **tending.told})
        self._files = RunFiles(run_dir.resolve() / job)
        self._owned = owned
        self._log = log.bind(job=job)

    async def _begin(self) -> _Running:
        """Adopt the workers on record and supervise from here on."""
        running = self._assemble()
        try:
            await _retry_while_busy(lambda: running.supervision.make_pass(self._tending.now()))
        except BaseException:
            running.close_pipe()
            raise
        running.task = asyncio.create_task(self._supervise(running), name=f"supervise {self._job}")
        return running

    async def close(self, *, keep_workers: bool | None = None, within_s: float | None = None) -> None:
        """Stop supervising. Workers stay, for the next pool to adopt, unless they are owned.

        Workers that must end get `within_s` (`drain_s` when not given) to leave, then are killed;
        a close that is itself cancelled kills them at once. Workers that another pool supervises
        by now are left to it.
        """
        running = self._end()
        if running is None:
            return
        keep = not self._owned if keep_workers is None else keep_workers
        try:
            await running.stop_task()
            if not keep:
                await self._let_leave(running, self._tending.drain_s if within_s is None else within_s)
        finally:
            if not keep and running.supervision.active:
                running.kill_all()
            self._release(running)
            running.close_pipe()

    async def observe(self) -> PoolState:
        """What was asked for and what runs, at most a pass old."""
        running = self._open()
        if running.fault:
            raise PoolUnavailable(running.fault)
        try:
            return running.supervision.state(self._tending.now())
        except OSError as error:
            raise PoolUnavailable(f"{self._name} cannot be read: {error}") from error

    async def resize(self, request: PoolResize) -> None:
        """Write down the size; the supervision task brings it about.

        Raises Fenced, Rejected, and PoolUnavailable when it cannot be written down.
        """
        running = self._open()
        await _retry_while_busy(lambda: running.supervision.ask(request, self._tending.now()))
        running.wake.set()

    def lead_times(self) -> tuple[LeadTime, ...]:
        """The latest starts, asked to ready, oldest first."""
        return self._open().crew.lead_times.recent()

    def _assemble(self) -> _Running:
        try:
            self._files.make()
        except OSError as error:
            raise PoolUnavailable(
                f"{self._files.directory} cannot be made: {error}; mend pool.run_dir"
            ) from error
        pipe = os.pipe() if self._owned else None
        logs = WorkerLogs(self._files.directory / "logs")
        launcher = Launcher(self._command, self._files, logs, owner_fd=pipe[0] if pipe else None)
        platform = ProcessPlatform(self._files, logs, launcher)
        crew = Crew(
            self._job,
            platform,
            backoff=self._tending.backoff,
            drain_s=self._tending.drain_s,
            names=self._tending.names,
        )
        supervision = Supervision(self._job, self._files, platform, crew)
        return _Running(crew=crew, supervision=supervision, pipe=pipe)

    async def _supervise(self, running: _Running) -> None:
        while True:
            running.wake.clear()
            self._try_pass(running)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._tending.poll_s):
                    await running.wake.wait()

    def _try_pass(self, running: _Running) -> None:
        """One pass; what hinders it is told by `observe()` until a pass succeeds."""
        try:
            running.supervision.make_pass(self._tending.now())
        except RunDirBusy as error:
            # Another controller is at it for a moment; only a lasting lock is worth telling.
            if time.monotonic() - running.passed_s < _LOCK_WITHIN_S:
                return
            running.fault = str(error)
        except (OSError, PoolUnavailable) as error:
            if not running.fault:
                self._log.warning("supervision_hindered", error=str(error))
            running.fault = f"{self._name} cannot be supervised: {error}"
        else:
            running.passed_s, running.fault = time.monotonic(), ""

    async def _let_leave(self, running: _Running, within_s: float) -> None:
        deadline_s = time.monotonic() + within_s
        await _retry_while_busy(running.supervision.dismiss_all)
        while running.supervision.active and not running.crew.empty and time.monotonic() < deadline_s:
            self._try_pass(running)
            await asyncio.sleep(min(self._tending.poll_s, 0.05))

    def _release(self, running: _Running) -> None:
        try:
            running.supervision.release()
        except (OSError, PoolUnavailable) as error:
            # The next pool then waits until it finds us dead or silent, and takes over.
            self._log.warning("claim_not_released", error=str(error))


@dataclass(slots=True, kw_only=True)
class _Running(Tended):
    """What an open pool consists of."""

    crew: Crew
    supervision: Supervision
    pipe: tuple[int, int] | None
    passed_s: float = field(default_factory=time.monotonic)

    def kill_all(self) -> None:
        """End everyone and wait until they are gone: milliseconds, unless one hangs in the kernel.

        Does not leave the event loop free, so that nothing can cancel it.
        """
        deadline_s = time.monotonic() + _KILLED_WITHIN_S
        while not self.crew.empty and time.monotonic() < deadline_s:
            self.crew.kill_all()
            time.sleep(0.005)

    def close_pipe(self) -> None:
        """Owned workers read the end of file now."""
        for descriptor in self.pipe or ():
            os.close(descriptor)


async def _retry_while_busy(change: Callable[[], None]) -> None:
    """Make a change under the directory's lock. Raises PoolUnavailable when the lock stays taken."""
    deadline_s = time.monotonic() + _LOCK_WITHIN_S
    while True:
        try:
            return change()
        except RunDirBusy:
            if time.monotonic() >= deadline_s:
                raise
        except OSError as error:
            raise PoolUnavailable(f"the pool's directory cannot be used: {error}") from error
        await asyncio.sleep(0.01)
