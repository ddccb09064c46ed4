"""Ports that do what a test tells them to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory
from services.control.actuation import Settlement
from services.control.errors import Fenced
from services.control.types import (
    Actuation,
    ControlState,
    Decision,
    PoolCapabilities,
    PoolResize,
    PoolState,
    TrafficReading,
    Victims,
    WorkerReport,
)
from services.store.memory_state import MemoryState
from tests.control.worlds import a_pool


@dataclass
class FakeClock:
    at_s: float = 1000.0
    slept_until: list[float] = field(default_factory=list)

    def now_s(self) -> float:
        return self.at_s

    async def sleep_until(self, at_s: float) -> None:
        self.slept_until.append(at_s)
        self.at_s = max(self.at_s, at_s)


@dataclass
class FakeLeadership:
    leads_with: int | None = 1

    def token(self) -> int | None:
        return self.leads_with


@dataclass
class FakeMeter:
    clock: FakeClock
    rate: float = 100.0
    failure: Exception | None = None
    late_share: float | None = None

    async def read(self) -> TrafficReading:
        if self.failure:
            raise self.failure
        return TrafficReading(
            at_s=self.clock.at_s,
            rate_per_s=self.rate,
            trained_per_s=self.rate,
            lag=0,
            lag_s=0.0,
            late_share=self.late_share,
            partition_rates=(self.rate / 4,) * 4,
        )

    def history(self) -> TrafficHistory:
        return TrafficHistory(start_s=0.0, step_s=60.0, rates=np.array([self.rate]))


class NoForecasts:
    def forecast(self, history: TrafficHistory) -> Forecast | None:
        return None


class NoTelemetry:
    async def reports(self) -> tuple[WorkerReport, ...]:
        return ()


@dataclass
class ToldReports:
    """The same reports at every tick."""

    told: tuple[WorkerReport, ...]

    async def reports(self) -> tuple[WorkerReport, ...]:
        return self.told


@dataclass
class FakePool:
    """Ready at once. `failure` is raised by the next calls; `done_but_unheard` acts, then raises."""

    requested: int = 1
    asked: list[PoolResize] = field(default_factory=list)
    failure: BaseException | None = None
    done_but_unheard: BaseException | None = None
    newest_fence: int = 0
    able: PoolCapabilities = field(default_factory=lambda: PoolCapabilities(True, True, Victims.ANY))

    async def observe(self) -> PoolState:
        return a_pool(self.requested)

    async def resize(self, request: PoolResize) -> None:
        if self.failure:
            raise self.failure
        if request.fence < self.newest_fence:
            raise Fenced("resize", token=request.fence, newest=self.newest_fence)
        self.newest_fence = request.fence
        self.asked.append(request)
        self.requested = request.workers
        if self.done_but_unheard:
            raise self.done_but_unheard

    def capabilities(self) -> PoolCapabilities:
        return self.able


@dataclass
class FakeStore:
    states: dict[str, ControlState] = field(default_factory=dict)
    log: list[Decision] = field(default_factory=list)
    failure: BaseException | None = None
    newest_fence: int = 0
    trail: MemoryState = field(default_factory=MemoryState)
    settling_failure: BaseException | None = None

    async def load(self, job: str) -> ControlState:
        if self.failure:
            raise self.failure
        return self.states.get(job, ControlState())

    async def commit(self, decision: Decision, *, fence: int) -> None:
        if self.failure:
            raise self.failure
        if fence < self.newest_fence:
            raise Fenced("commit", token=fence, newest=self.newest_fence)
        self.newest_fence = fence
        self.states[decision.job] = replace(decision.state)
        self.log.append(decision)
        await self.trail.commit(decision, fence=fence)

    async def settle(self, job: str, settlement: Settlement) -> None:
        if self.failure or self.settling_failure:
            raise self.failure or self.settling_failure  # type: ignore[misc]  # one of them is there
        await self.trail.settle(job, settlement)

    async def actuations(self, job: str, *, limit: int = 100) -> tuple[Actuation, ...]:
        return await self.trail.actuations(job, limit=limit)

    async def decisions(self, job: str, *, limit: int = 100) -> tuple[Decision, ...]:
        return tuple(d for d in reversed(self.log) if d.job == job)[:limit]
