"""Jobs with a pool for each GPU type that share one budget, on memory pools."""

from __future__ import annotations

from dataclasses import replace

from estimator.fleet import Budget, Standing
from services.actuator.memory_pool import MemoryPool
from services.actuator.typed_pool import TypedPool
from services.control.fleet_share import FleetShare, FleetTerms
from services.control.loop import JobLoop, Ports, Tick
from services.control.types import PoolResize, PoolState, TrafficReading
from tests.control.fakes import FakeClock, FakeLeadership, FakeMeter, FakeStore, NoForecasts, NoTelemetry
from tests.control.worlds import a_policy

TICK_S = 10.0
START_S = 30.0


class LateMeter(FakeMeter):
    """A meter that may tell of a backlog that is late."""

    lag = 0

    async def read(self) -> TrafficReading:
        reading = await super().read()
        return replace(reading, lag=self.lag, lag_s=600.0 if self.lag else 0.0)


class Fleet:
    """Jobs on memory pools, some of them with one for each type. A worker of any type trains 100/s."""

    def __init__(self, gpus: dict[str, int], rates: dict[str, float] | None = None, **prices: float) -> None:
        self.clock, self.leadership, self.store = FakeClock(), FakeLeadership(1), FakeStore()
        self.share = FleetShare(FleetTerms(Budget.counted(gpus, prices=prices)), interval_s=TICK_S)
        self.rates = rates or dict.fromkeys(gpus, 100.0)
        self.meters: dict[str, LateMeter] = {}
        self.pools: dict[str, dict[str, MemoryPool]] = {}
        self.loops: dict[str, JobLoop] = {}

    async def job(
        self, standing: Standing, at: str, workers: int, *, types: tuple[str, ...], start_s: float = START_S
    ) -> None:
        name = standing.name
        self.meters[name] = LateMeter(self.clock)
        self.pools[name] = {
            kind: MemoryPool(self.clock, startup_s=start_s, names=f"{name}-{kind}") for kind in types
        }
        await self.pools[name][at].resize(PoolResize(workers, "before", fence=0))
        self.loops[name] = self.loop(standing)

    def loop(self, standing: Standing) -> JobLoop:
        ports = Ports(
            clock=self.clock,
            leadership=self.leadership,
            meter=self.meters[standing.name],
            forecasts=NoForecasts(),
            pool=TypedPool(self.pools[standing.name]),
            telemetry=NoTelemetry(),
            store=self.store,
            share=self.share,
        )
        policy = a_policy()
        most = min(standing.workers_max, policy.limits.workers_max)  # as settings have it
        policy = replace(policy, standing=replace(standing, workers_max=most), lone_rates=self.rates)
        return JobLoop(standing.name, policy, ports, tell=lambda _: None)

    async def ticks(self, count: int) -> list[Tick]:
        ticks = []
        for _ in range(count):
            for loop in self.loops.values():
                ticks.append(await loop.tick())
                assert ticks[-1].error is None
                await self.check_budget()
            self.clock.at_s += TICK_S
        return ticks

    async def check_budget(self) -> None:
        for kind, there in self.share.terms.budget.gpus.items():
            states = [await pools[kind].observe() for pools in self.pools.values() if kind in pools]
            assert sum(state.requested for state in states) <= there, kind

    async def asked(self, job: str) -> dict[str, int]:
        states = {kind: await pool.observe() for kind, pool in self.pools[job].items()}
        return {kind: state.requested for kind, state in states.items() if state.requested}

    async def state(self, job: str) -> PoolState:
        return await TypedPool(self.pools[job]).observe()
