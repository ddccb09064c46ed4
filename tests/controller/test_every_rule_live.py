"""Every rule may be chosen for a job that runs, by its settings alone, and goes on after a restart."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.rules import RULES
from forecasting.forecast import LEVELS, Forecast
from forecasting.history import TrafficHistory
from services.control.loop import JobLoop, Ports, Tick
from services.control.types import ControlState, Policy, WorkerReport
from services.settings import JobSettings
from services.store import codec
from tests.control.fakes import FakeClock, FakeLeadership, FakeMeter, FakePool, FakeStore, ToldReports

TICK_S = 15.0


class Flat:
    """A forecast of what is."""

    def forecast(self, history: TrafficHistory) -> Forecast:
        paths = np.full((len(LEVELS), 60), float(history.rates[-1]))
        return Forecast(issued_at_s=history.end_s, step_s=60.0, paths=paths, model="flat", score=0.02)


class Live:
    """One job on ports that obey, its controller started anew when a test says so."""

    def __init__(self, policy: Policy) -> None:
        self.clock, self.pool, self.store = FakeClock(), FakePool(requested=2), FakeStore()
        self.meter = FakeMeter(self.clock, rate=1500.0)
        self.policy = policy
        self.ticks: list[Tick] = []
        self.start()

    def start(self) -> None:
        """What is stored is read back as Redis would give it."""
        stored = self.store.states.get("clicks")
        if stored is not None:
            raw = codec.encode_state(stored)
            self.store.states["clicks"] = codec.decode_state(raw, key="clicks")
        told = ToldReports(tuple(WorkerReport(f"w-{i}", 0.0, 10, 0.9, 1000.0) for i in range(8)))
        ports = Ports(self.clock, FakeLeadership(1), self.meter, Flat(), self.pool, told, self.store)
        self.loop = JobLoop("clicks", self.policy, ports, tell=self.ticks.append)

    async def run(self, ticks: int) -> None:
        for _ in range(ticks):
            await self.loop.tick()
            self.clock.at_s += TICK_S


def policy_of(rule: str) -> Policy:
    scaling = {"rule": rule, "rate_per_worker": 1000.0, "workers_max": 8, "lead_time_s": 30.0}
    return JobSettings.model_validate({"topic": "clicks", "scaling": scaling}).policy(stale_after_s=30.0)


@pytest.mark.parametrize("rule", sorted(RULES))
async def test_a_rule_chosen_in_the_settings_runs_live_and_survives_a_restart(rule: str) -> None:
    live = Live(policy_of(rule))

    await live.run(30)
    memory = live.store.states["clicks"].memory
    live.start()
    assert live.store.states["clicks"].memory == memory, "read back as it was"
    await live.run(10)

    assert len(live.ticks) == 40
    assert all(tick.error is None for tick in live.ticks)
    decisions = [tick.decision for tick in live.ticks if tick.decision is not None]
    assert {decision.state.rule for decision in decisions} == {rule}
    assert all(1 <= decision.planned <= 8 for decision in decisions)


@pytest.mark.parametrize("rule", sorted(RULES))
async def test_another_rule_takes_over_while_the_job_runs(rule: str) -> None:
    live = Live(policy_of("reactive"))
    await live.run(3)

    live.loop.policy = policy_of(rule)
    await live.run(3)

    assert live.ticks[-1].error is None
    assert live.store.states["clicks"] != ControlState()
    assert live.store.states["clicks"].rule == rule
