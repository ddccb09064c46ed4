"""The whole loop in seeded worlds whose ports fail at random and whose traffic exceeds any pool.

A failure is reproduced by its seed alone.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from estimator.situation import Limits
from services.control import bounds, decide
from services.control.actuation import Outcome
from services.control.breaker import BreakerTerms
from services.control.errors import (
    ControlError,
    Fenced,
    PoolUnavailable,
    Rejected,
    StateUnavailable,
    TrafficUnavailable,
)
from services.control.loop import JobLoop, Ports, Tick
from services.control.safety import SafetyLimits
from services.control.types import Decision, PoolResize, PoolState, Reason
from services.settings.safety import SafetySettings
from services.store.memory_state import MemoryState
from tests.control.fakes import (
    FakeClock,
    FakeLeadership,
    FakeMeter,
    FakePool,
    FakeStore,
    NoForecasts,
    NoTelemetry,
)
from tests.control.worlds import a_policy, a_pool

ORDINARY = SafetySettings().limits(fleet_resizes_per_hour=3600)
TIGHT = SafetyLimits(
    step_up_max=3, step_down_max=2, resizes_per_hour=12, resizes_per_day=30, breaker=BreakerTerms(3, 30, 120)
)
TICK_S = 5.0
WORKERS_MIN, WORKERS_MAX = 1, 12


class SlowPool(FakePool):
    """Workers are ready a while after they were asked for, and die now and then."""

    def __init__(self, clock: FakeClock, dice: random.Random) -> None:
        super().__init__(requested=WORKERS_MIN)
        self._clock = clock
        self._dice = dice
        self._ready_at_s: list[float] = [clock.at_s]
        self._failures = 0

    async def observe(self) -> PoolState:
        if self._dice.random() < 0.03:
            raise PoolUnavailable("no answer")
        if self._dice.random() < 0.05 and self._ready_at_s:
            self._ready_at_s.remove(self._dice.choice(self._ready_at_s))
            self._failures += 1
        self._replace_missing()
        ready = sum(at_s <= self._clock.at_s for at_s in self._ready_at_s)
        return a_pool(self.requested, ready=ready, failures=self._failures)

    async def resize(self, request: PoolResize) -> None:
        await super().resize(request)
        self._ready_at_s = sorted(self._ready_at_s)[: request.workers]
        self._replace_missing()

    def _replace_missing(self) -> None:
        while len(self._ready_at_s) < self.requested:
            self._ready_at_s.append(self._clock.at_s + self._dice.choice([20.0, 60.0, 300.0]))


class World:
    """One job, its ports, and the dice that decide what fails next."""

    def __init__(self, seed: int, safety: SafetyLimits | None = None) -> None:
        self.dice = random.Random(seed)
        self.clock = FakeClock()
        self.meter = FakeMeter(self.clock)
        self.pool = SlowPool(self.clock, self.dice)
        self.store = FakeStore()
        self.leadership = FakeLeadership(1)
        self.ticks: list[Tick] = []
        self.policy = replace(
            a_policy(workers_min=WORKERS_MIN, workers_max=WORKERS_MAX), safety=safety or ORDINARY
        )
        self.loop = self._controller()

    def _controller(self) -> JobLoop:
        ports = Ports(
            clock=self.clock,
            leadership=self.leadership,
            meter=self.meter,
            forecasts=NoForecasts(),
            pool=self.pool,
            telemetry=NoTelemetry(),
            store=self.store,
        )
        return JobLoop("clicks", self.policy, ports, tell=self.ticks.append)

    async def step(self) -> None:
        self._fail_somehow()
        self._change_traffic()
        await self.loop.tick()
        self.clock.at_s += TICK_S

    def heal(self) -> None:
        self.meter.failure = self.store.failure = self.pool.failure = self.pool.done_but_unheard = None
        self.leadership.leads_with = self.leadership.leads_with or max(1, self.store.newest_fence)

    def _fail_somehow(self) -> None:
        self.heal()
        fault = self.dice.random()
        if fault < 0.05:
            self.meter.failure = TrafficUnavailable("no broker answers")
        elif fault < 0.10:
            self.store.failure = StateUnavailable("redis is away")
        elif fault < 0.15:
            self.pool.failure = self.dice.choice([PoolUnavailable("no answer"), Rejected("quota")])
        elif fault < 0.20:
            self.pool.done_but_unheard = PoolUnavailable("answer lost")
        elif fault < 0.25:
            self._crash()
        elif fault < 0.28:
            self.leadership.leads_with = None

    def _crash(self) -> None:
        """Another controller process takes over; the old one's memory is gone."""
        self.leadership.leads_with = max(self.leadership.leads_with or 0, self.store.newest_fence) + 1
        self.loop = self._controller()

    def _change_traffic(self) -> None:
        if self.dice.random() < 0.1:
            self.meter.rate = self.dice.choice([0.0, 30.0, 150.0, 480.0, 900.0, 5_000.0, 1e6])


async def stays_in_bounds_and_does_nothing_unrecorded(seed: int) -> None:
    world = World(seed)
    for _ in range(240):
        asked_before, recorded_before = len(world.pool.asked), len(world.store.log)
        await world.step()
        tick = world.ticks[-1]
        asked = world.pool.asked[asked_before:]

        assert WORKERS_MIN <= world.pool.requested <= WORKERS_MAX, f"{seed=}"
        assert len(asked) <= 1, f"{seed=}"
        for request in asked:
            recorded = world.store.log[recorded_before:]
            assert [decision.id for decision in recorded] == [request.decision_id], f"{seed=}"
        if tick.following or isinstance(tick.error, StateUnavailable | TrafficUnavailable):
            assert asked == [], f"{seed=}"
        assert tick.error is None or isinstance(tick.error, ControlError), f"{seed=}"


async def settles_once_faults_end(seed: int) -> None:
    world = World(seed)
    for _ in range(60):
        await world.step()
    world.heal()
    world.meter.rate = 450.0
    for _ in range(40):
        await world.loop.tick()
        world.clock.at_s += TICK_S

    assert world.pool.requested == 5, f"{seed=}, {world.ticks[-1]}"


async def is_not_moved_by_the_deposed(seed: int) -> None:
    world = World(seed)
    world.meter.rate = 450.0
    await world.loop.tick()
    deposed, old_leadership = world.loop, world.leadership
    world.leadership = FakeLeadership(2)
    world.loop = world._controller()
    while not world.pool.asked or world.pool.asked[-1].fence != 2:
        world.meter.rate = world.dice.choice([150.0, 700.0, 900.0])
        world.clock.at_s += TICK_S
        await world.loop.tick()
    before = len(world.pool.asked)

    old_leadership.leads_with = 1
    world.meter.rate = 5_000.0  # what it would grow for, if it could
    tick = await deposed.tick()

    assert len(world.pool.asked) == before, f"{seed=}"
    assert tick.error is None or isinstance(tick.error, Fenced | PoolUnavailable), f"{seed=}"
    assert tick.decision is None or tick.decision.reason is not Reason.COLD_START


async def keeps_to_its_rates_and_steps(seed: int) -> None:
    world = World(seed, TIGHT)
    for _ in range(800):
        await world.step()

    asked = [decision for decision in world.store.log if decision.resize is not None]
    assert len(asked) > 12, f"{seed=}: a world that never tries its limits proves nothing"
    for i, first in enumerate(asked):
        assert sum(decision.at_s - first.at_s < 3600.0 for decision in asked[i:]) <= 12, f"{seed=}"
    assert len(asked) <= 30, f"{seed=}"
    for decision in asked:
        assert -2 <= decision.planned - decision.requested <= 3, f"{seed=}"


async def leaves_a_trail_that_ends(seed: int) -> None:
    world = World(seed)
    for _ in range(80):
        await world.step()
    world.heal()
    for _ in range(3):
        await world.loop.tick()
        world.clock.at_s += TICK_S

    trail = {one.decision_id: one for one in await world.store.actuations("clicks", limit=1000)}
    assert {request.decision_id for request in world.pool.asked} <= trail.keys(), f"{seed=}"
    assert all(one.outcome is not Outcome.ASKED for one in trail.values()), f"{seed=}"
    done = [one for one in trail.values() if one.outcome is Outcome.DONE]
    assert done, f"{seed=}"
    assert done[0].workers == world.pool.requested, f"{seed=}: the last one done is the size there is"


@pytest.mark.parametrize("seed", range(100))
async def test_the_pool_stays_in_bounds_and_nothing_is_done_unrecorded(seed: int) -> None:
    await stays_in_bounds_and_does_nothing_unrecorded(seed)


@pytest.mark.parametrize("seed", range(100))
async def test_once_faults_end_the_pool_settles_at_the_size_for_the_traffic(seed: int) -> None:
    await settles_once_faults_end(seed)


@pytest.mark.parametrize("seed", range(50))
async def test_a_deposed_controller_never_moves_the_pool(seed: int) -> None:
    await is_not_moved_by_the_deposed(seed)


@pytest.mark.parametrize("seed", range(10))
async def test_no_hour_has_more_resizes_than_allowed_and_none_is_larger_than_a_step(seed: int) -> None:
    await keeps_to_its_rates_and_steps(seed)


@pytest.mark.parametrize("seed", range(50))
async def test_every_resize_is_in_the_trail_and_every_trail_ends(seed: int) -> None:
    await leaves_a_trail_that_ends(seed)


def no_limits(patch: pytest.MonkeyPatch) -> None:
    """The operator's bounds are lost on the way to the tick."""
    patch.setattr(decide, "limits_of", lambda *_: Limits(0, 1000))


def no_record(patch: pytest.MonkeyPatch) -> None:
    """What is decided is carried out and not written down."""

    async def forgotten(*_: object) -> None:
        return None

    patch.setattr(JobLoop, "_record", forgotten)


def no_holding(patch: pytest.MonkeyPatch) -> None:
    """A tick that could not measure traffic resizes all the same."""
    before = JobLoop._lead

    async def blindly(self: JobLoop, fence: int, started_at_s: float) -> Tick:
        tick = await before(self, fence, started_at_s)
        if isinstance(tick.error, TrafficUnavailable):
            await self._ports.pool.resize(PoolResize(3, "blind", fence))
        return tick

    patch.setattr(JobLoop, "_lead", blindly)


def no_second_try(patch: pytest.MonkeyPatch) -> None:
    """A resize is asked for once, whatever became of it."""
    before = JobLoop._act
    asked: set[int] = set()

    async def once(self: JobLoop, decision: Decision) -> None:
        if decision.resize is not None and decision.planned not in asked:
            asked.add(decision.planned)
            await before(self, decision)

    patch.setattr(JobLoop, "_act", once)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """Neither store nor pool looks at the token."""

    def blind(method: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def taken(self: FakeStore | FakePool, *given: object, **named: object) -> None:
            self.newest_fence = 0
            await method(self, *given, **named)

        return taken

    for kind, name in ((FakeStore, "commit"), (FakePool, "resize")):
        patch.setattr(kind, name, blind(getattr(kind, name)))
    patch.setattr(MemoryState, "commit", _nothing)


async def _nothing(*_: object, **__: object) -> None:
    return None


def no_restraint(patch: pytest.MonkeyPatch) -> None:
    """Steps, rates and the breaker are passed over."""
    patch.setattr(bounds, "restrained", lambda planned, *_, **__: (planned, None))


def no_settlement(patch: pytest.MonkeyPatch) -> None:
    """What became of a resize is not marked."""
    patch.setattr(FakeStore, "settle", _nothing)


@pytest.mark.parametrize(
    ("invariant", "without"),
    [
        (stays_in_bounds_and_does_nothing_unrecorded, no_limits),
        (stays_in_bounds_and_does_nothing_unrecorded, no_record),
        (stays_in_bounds_and_does_nothing_unrecorded, no_holding),
        (settles_once_faults_end, no_second_try),
        (is_not_moved_by_the_deposed, no_fence),
        (keeps_to_its_rates_and_steps, no_restraint),
        (leaves_a_trail_that_ends, no_settlement),
    ],
)
async def test_each_invariant_fails_without_the_rule_that_it_guards(
    invariant: Callable[[int], Awaitable[None]],
    without: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without(monkeypatch)

    async def lived() -> None:
        for seed in range(5):
            await invariant(seed)

    with pytest.raises(AssertionError, match="seed="):
        await lived()


async def test_a_platform_that_refuses_is_not_asked_at_every_tick() -> None:
    world = World(1)
    world.pool.requested = 2
    for _ in range(240):
        world.heal()
        world.meter.rate, world.pool.failure = 900.0, Rejected("quota")
        await world.loop.tick()
        world.clock.at_s += TICK_S

    asked = sum(decision.resize is not None for decision in world.store.log)
    assert 5 < asked < 15, "five in a row, then after 30, 60, 120, 240, 480 seconds"

    world.heal()
    for _ in range(130):
        await world.loop.tick()
        world.clock.at_s += TICK_S
    assert world.pool.requested == 9, "and is asked again once it may have come to its senses"
