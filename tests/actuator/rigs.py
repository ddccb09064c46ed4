"""Pools under test: each with a way to wait for what it does, and to do it harm."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from services.actuator import Backoff, MemoryPool, ProcessPool
from services.actuator.lead_time import LeadTime
from services.actuator.tending import Tending
from services.control.errors import PoolUnavailable
from services.control.ports import WorkerPool
from services.control.types import PoolResize, PoolState, WorkerPhase
from tests.actuator.processes import FAKE_WORKER, running
from tests.waiting import eventually_async


class MeasuredPool(WorkerPool, Protocol):
    """A pool that also tells its lead times."""

    def lead_times(self) -> tuple[LeadTime, ...]: ...


class Rig(Protocol):
    """A pool, and power over its world."""

    @property
    def pool(self) -> MeasuredPool: ...

    async def until(self, condition: Callable[[PoolState], bool], what: str) -> PoolState:
        """The first state for which `condition` holds."""
        ...

    def kill(self, worker: str) -> None:
        """Let a worker die unasked."""
        ...


@dataclass
class HandClock:
    """A clock that is moved by hand."""

    at_s: float = 1_000.0

    def now_s(self) -> float:
        return self.at_s

    async def sleep_until(self, at_s: float) -> None:
        self.at_s = max(self.at_s, at_s)


@dataclass
class MemoryRig:
    """A memory pool whose workers take 3 s to start and 2 s to leave."""

    clock: HandClock = field(default_factory=HandClock)

    def __post_init__(self) -> None:
        self.pool = MemoryPool(self.clock, startup_s=3.0, drain_s=2.0)

    async def until(self, condition: Callable[[PoolState], bool], what: str) -> PoolState:
        state = await self.pool.observe()
        for _ in range(100):
            if condition(state):
                return state
            self.clock.at_s += 0.5
            state = await self.pool.observe()
        raise AssertionError(f"{what}: did not happen within 50 s of the pool's clock ({state})")

    def kill(self, worker: str) -> None:
        self.pool.fail(worker)


@dataclass
class ProcessRig:
    """A process pool with fake workers; open it before use."""

    run_dir: Path
    pool: ProcessPool

    async def until(self, condition: Callable[[PoolState], bool], what: str) -> PoolState:
        return await until(self.pool, condition, what)

    def kill(self, worker: str) -> None:
        os.kill(running(self.run_dir)[worker], signal.SIGKILL)


async def until(
    pool: WorkerPool, condition: Callable[[PoolState], bool], what: str, *, within_s: float = 20.0
) -> PoolState:
    """The first state of `pool` for which `condition` holds, in real time."""

    async def satisfied() -> PoolState:
        try:
            state = await pool.observe()
        except PoolUnavailable as error:
            raise AssertionError(str(error)) from error
        assert condition(state), state
        return state

    seen: PoolState = await eventually_async(satisfied, what=what, within_s=within_s)
    return seen


def fake_pool(run_dir: Path, *how: str, owned: bool = True, drain_s: float = 600.0) -> ProcessPool:
    """A process pool of fake workers that do as `how` says, supervised often."""
    return ProcessPool(
        "ads",
        command=(*FAKE_WORKER, *how),
        run_dir=run_dir,
        owned=owned,
        tending=Tending(drain_s, Backoff(first_s=0.05, longest_s=0.4, healthy_s=30.0), poll_s=0.02),
    )


async def refusal(pool: WorkerPool) -> str:
    """Why the pool cannot be observed; empty when it can."""
    try:
        await pool.observe()
    except PoolUnavailable as error:
        return str(error)
    return ""


def ask(workers: int, *, fence: int = 1, remove: tuple[str, ...] = ()) -> PoolResize:
    """A request for that many workers."""
    return PoolResize(workers, decision_id=f"ads-{workers}", fence=fence, remove=remove)


def ids(state: PoolState, phase: WorkerPhase) -> set[str]:
    """The workers of one phase."""
    return {worker.id for worker in state.workers if worker.phase is phase}


def settled(size: int) -> Callable[[PoolState], bool]:
    """Exactly `size` workers, all ready, none on its way in or out."""
    return lambda state: len(state.workers) == state.ready == state.requested == size
