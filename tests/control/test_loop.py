"""The loop: record before acting, hold on trouble, resume by itself, never act twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from services.control.actuation import Actuation, Outcome
from services.control.errors import Fenced, PoolUnavailable, Rejected, StateUnavailable, TrafficUnavailable
from services.control.fleet import FleetCount
from services.control.loop import JobLoop, Ports, Tick
from services.control.safety import SafetyLimits
from services.control.types import Decision, PoolResize, Reason
from tests.control.fakes import (
    FakeClock,
    FakeLeadership,
    FakeMeter,
    FakePool,
    FakeStore,
    NoForecasts,
    NoTelemetry,
)
from tests.control.worlds import a_policy


class World:
    """One job on fakes. `controller()` starts another controller process on the same pool and store."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.meter = FakeMeter(self.clock)
        self.pool = FakePool()
        self.store = FakeStore()
        self.told: list[Tick] = []

    def controller(self, *, token: int | None = 1) -> JobLoop:
        self.leadership = FakeLeadership(token)
        ports = Ports(
            clock=self.clock,
            leadership=self.leadership,
            meter=self.meter,
            forecasts=NoForecasts(),
            pool=self.pool,
            telemetry=NoTelemetry(),
            store=self.store,
        )
        return JobLoop("clicks", a_policy(), ports, tell=self.told.append)


@pytest.fixture
def world() -> World:
    return World()


async def test_a_tick_resizes_the_pool_for_the_traffic(world: World) -> None:
    world.meter.rate = 450

    tick = await world.controller().tick()

    assert tick.error is None
    assert [request.workers for request in world.pool.asked] == [5]
    assert world.pool.asked[0].decision_id == world.store.log[0].id


async def test_more_than_a_kind_of_pool_can_have_is_not_asked_for(world: World) -> None:
    world.meter.rate = 450
    world.pool.able = replace(world.pool.able, workers_max=3)

    tick = await world.controller().tick()

    assert [request.workers for request in world.pool.asked] == [3]
    assert tick.decision is not None
    assert Reason.AT_PLATFORM in tick.decision.notes


async def test_nothing_is_asked_twice(world: World) -> None:
    world.meter.rate = 450
    loop = world.controller()

    for _ in range(3):
        await loop.tick()

    assert len(world.pool.asked) == 1


async def test_a_decision_is_recorded_before_it_is_carried_out(world: World) -> None:
    world.meter.rate = 450
    world.pool.failure = PoolUnavailable("no answer")

    tick = await world.controller().tick()

    assert isinstance(tick.error, PoolUnavailable)
    assert world.store.log[0].planned == 5


async def test_a_resize_that_failed_is_asked_for_again(world: World) -> None:
    world.meter.rate = 450
    world.pool.failure = PoolUnavailable("no answer")
    loop = world.controller()
    await loop.tick()

    world.pool.failure = None
    await loop.tick()

    assert [request.workers for request in world.pool.asked] == [5]


async def test_a_lost_response_does_not_resize_twice(world: World) -> None:
    world.meter.rate = 450
    world.pool.done_but_unheard = PoolUnavailable("timed out after it was done")
    loop = world.controller()
    await loop.tick()

    world.pool.done_but_unheard = None
    await loop.tick()

    assert [request.workers for request in world.pool.asked] == [5]


async def test_a_crashed_controller_resumes_without_a_second_resize(world: World) -> None:
    world.meter.rate = 450
    await world.controller(token=1).tick()

    successor = world.controller(token=2)
    await successor.tick()

    assert [request.workers for request in world.pool.asked] == [5]
    assert world.store.log[-1].id == "clicks-2"  # goes on counting where the first one stopped


async def test_a_controller_that_stood_still_before_it_acted_leaves_the_pool_to_who_leads_now(
    world: World,
) -> None:
    """Stopped for minutes after it had recorded: the pool has not heard of the new leader's token yet."""
    world.meter.rate = 450
    stopped = world.controller(token=1)
    leadership, commit = world.leadership, world.store.commit

    async def commit_and_stop(decision: Decision, *, fence: int) -> None:
        await commit(decision, fence=fence)
        leadership.leads_with = None

    world.store.commit = commit_and_stop  # type: ignore[method-assign]
    tick = await stopped.tick()

    assert isinstance(tick.error, Fenced)
    assert world.pool.asked == []
    world.store.commit = commit  # type: ignore[method-assign]
    await world.controller(token=2).tick()
    assert [(request.workers, request.fence) for request in world.pool.asked] == [(5, 2)]


async def test_a_lost_store_holds_the_pool_and_the_loop_resumes_by_itself(world: World) -> None:
    loop = world.controller()
    await loop.tick()
    world.meter.rate = 450
    world.store.failure = StateUnavailable("redis is away")

    held = await loop.tick()
    asked_meanwhile = list(world.pool.asked)
    world.store.failure = None
    resumed = await loop.tick()

    assert isinstance(held.error, StateUnavailable)
    assert held.degraded
    assert asked_meanwhile == []
    assert resumed.error is None
    assert [request.workers for request in world.pool.asked] == [5]


async def test_unmeasurable_traffic_holds_the_pool(world: World) -> None:
    world.meter.failure = TrafficUnavailable("no broker answers")

    tick = await world.controller().tick()

    assert isinstance(tick.error, TrafficUnavailable)
    assert world.pool.asked == []


async def test_a_refusal_is_told_and_does_not_stop_the_loop(world: World) -> None:
    world.meter.rate = 450
    world.pool.failure = Rejected("quota exceeded")
    loop = world.controller()

    first = await loop.tick()
    world.pool.failure = None
    second = await loop.tick()

    assert isinstance(first.error, Rejected)
    assert second.error is None


async def test_a_follower_does_nothing(world: World) -> None:
    tick = await world.controller(token=None).tick()

    assert tick.following
    assert world.store.log == []
    assert world.pool.asked == []


async def test_two_controllers_do_not_fight(world: World) -> None:
    world.meter.rate = 450
    old = world.controller(token=1)
    old_leadership = world.leadership
    await old.tick()
    new = world.controller(token=2)
    await new.tick()
    world.meter.rate = 850

    fenced = await old.tick()  # still believes that it leads
    await new.tick()

    assert fenced.error is not None
    assert "another controller leads" in str(fenced.error)
    assert [request.fence for request in world.pool.asked] == [1, 2]
    assert old_leadership.token() == 1


async def test_a_bug_in_a_port_is_not_swallowed(world: World) -> None:
    world.meter.failure = RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        await world.controller().tick()


class Killed(BaseException):
    """The controller's process is gone at this instruction."""


async def test_a_resize_is_in_the_trail_before_it_is_done_and_marked_done_after(world: World) -> None:
    world.meter.rate = 450
    seen_by_pool: list[tuple[Actuation, ...]] = []
    resize = world.pool.resize

    async def looking(request: PoolResize) -> None:
        seen_by_pool.append(await world.store.actuations("clicks"))
        await resize(request)

    world.pool.resize = looking  # type: ignore[method-assign]
    await world.controller().tick()

    (before,), (after,) = seen_by_pool[0], await world.store.actuations("clicks")
    assert (before.decision_id, before.before, before.workers) == ("clicks-1", 1, 5)
    assert (before.outcome, after.outcome) == (Outcome.ASKED, Outcome.DONE)
    assert before.reason is Reason.TRAFFIC_RISE


async def test_a_refused_resize_is_marked_with_the_platforms_words(world: World) -> None:
    world.meter.rate = 450
    world.pool.failure = Rejected("quota exceeded")

    await world.controller().tick()

    (told,) = await world.store.actuations("clicks")
    assert (told.outcome, told.why) == (Outcome.REFUSED, "quota exceeded")


async def test_a_resize_whose_answer_was_lost_is_marked_by_what_the_pool_shows(world: World) -> None:
    world.meter.rate = 450
    world.pool.done_but_unheard = PoolUnavailable("timed out after it was done")
    loop = world.controller()
    await loop.tick()
    assert (await world.store.actuations("clicks"))[0].outcome is Outcome.ASKED

    world.pool.done_but_unheard = None
    await loop.tick()

    assert [a.outcome for a in await world.store.actuations("clicks")] == [Outcome.DONE]


async def test_a_resize_that_is_not_wanted_any_more_is_marked_superseded(world: World) -> None:
    world.meter.rate = 450
    world.pool.failure = PoolUnavailable("no answer")
    loop = world.controller()
    await loop.tick()

    world.pool.failure, world.meter.rate = None, 90
    await loop.tick()

    assert world.pool.asked == []
    assert [a.outcome for a in await world.store.actuations("clicks")] == [Outcome.SUPERSEDED]


@pytest.mark.parametrize("moment", ["before the pool hears", "after the pool has", "before the mark"])
async def test_a_controller_killed_around_a_resize_leaves_the_right_size_asked_once(
    world: World, moment: str
) -> None:
    world.meter.rate = 450
    if moment == "before the pool hears":
        world.pool.failure = Killed()
    elif moment == "after the pool has":
        world.pool.done_but_unheard = Killed()
    else:
        world.store.settling_failure = Killed()
    with pytest.raises(Killed):
        await world.controller(token=1).tick()
    world.pool.failure = world.pool.done_but_unheard = world.store.settling_failure = None

    successor = world.controller(token=2)
    for _ in range(3):
        await successor.tick()

    assert world.pool.requested == 5
    assert [request.workers for request in world.pool.asked] == [5]
    trail = await world.store.actuations("clicks")
    assert next(a.outcome for a in trail if a.workers == 5) is Outcome.DONE
    assert Outcome.ASKED not in {a.outcome for a in trail}


async def test_two_jobs_cannot_both_take_the_last_resize_of_the_fleet(world: World) -> None:
    """The store answers both at the same moment; who decided first has taken it."""
    world.meter.rate = 450
    policy = replace(a_policy(), safety=SafetyLimits(fleet_resizes_per_hour=1))
    both = asyncio.Barrier(2)
    commit, fleet = world.store.commit, FleetCount()

    async def together(decision: Decision, *, fence: int) -> None:
        await both.wait()
        await commit(decision, fence=fence)

    world.store.commit = together  # type: ignore[method-assign]
    pools = {"clicks": FakePool(), "views": FakePool()}
    loops = [
        JobLoop(
            job,
            policy,
            Ports(
                clock=world.clock,
                leadership=FakeLeadership(1),
                meter=world.meter,
                forecasts=NoForecasts(),
                pool=pool,
                telemetry=NoTelemetry(),
                store=world.store,
                fleet=fleet,
            ),
            tell=world.told.append,
        )
        for job, pool in pools.items()
    ]

    await asyncio.gather(*(loop.tick() for loop in loops))

    assert sorted(len(pool.asked) for pool in pools.values()) == [0, 1]
    assert {t.decision.reason for t in world.told if t.decision} == {
        Reason.TRAFFIC_RISE,
        Reason.FLEET_RESIZE_RATE,
    }


class Enough(Exception):
    """Ends an endless loop."""


async def test_ticks_keep_to_the_grid_and_do_not_pile_up(world: World) -> None:
    loop = world.controller()
    slow_until = {1002.0: 1011.5}  # the second tick takes more than four intervals

    def tell(tick: Tick) -> None:
        world.told.append(tick)
        world.clock.at_s = slow_until.get(tick.at_s, world.clock.at_s)
        if len(world.told) == 4:
            raise Enough

    loop._tell = tell
    with pytest.raises(Enough):
        await loop.run(interval_s=2.0)

    assert [tick.at_s for tick in world.told] == [1000.0, 1002.0, 1012.0, 1014.0]
