"""A job with a pool for each GPU type heeds what the platform lets each of them have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.fleet import Standing
from services.actuator.memory_pool import MemoryPool
from services.actuator.typed_pool import TypedPool
from services.control.types import ControlState, PoolCapabilities, PoolResize, PoolState, Reason
from tests.control.fakes import FakeClock
from tests.control.typed_fleets import Fleet


class BoundedPool(MemoryPool):
    """One whose platform has bounds of its own, and keeps them whatever it is asked for."""

    least = 0
    most: int | None = None
    able_most: int | None = None

    async def observe(self) -> PoolState:
        return replace(await super().observe(), least=self.least, most=self.most)

    async def resize(self, request: PoolResize) -> None:
        kept = min(self.least, (await super().observe()).requested)
        self.asked = [*getattr(self, "asked", ()), request.workers]
        await super().resize(replace(request, workers=max(kept, request.workers)))

    def capabilities(self) -> PoolCapabilities:
        return replace(super().capabilities(), workers_max=self.able_most)


def bounded(clock: FakeClock, kind: str, **bounds: int) -> BoundedPool:
    pool = BoundedPool(clock, names=kind)
    for name, bound in bounds.items():
        setattr(pool, name, bound)
    return pool


async def a_fleet(on: str, workers: int, **bounds: dict[str, int]) -> Fleet:
    """`ads` on a100 or t4, the pools of which have bounds."""
    fleet = Fleet({"a100": 20, "t4": 20})
    await fleet.job(Standing("ads"), on, 0, types=("a100", "t4"))
    fleet.pools["ads"] = {kind: bounded(fleet.clock, kind, **bounds.get(kind, {})) for kind in ("a100", "t4")}
    await fleet.pools["ads"][on].resize(PoolResize(workers, "before", fence=0))
    fleet.loops["ads"] = fleet.loop(Standing("ads"))
    return fleet


async def test_the_bounds_of_each_type_are_told_and_are_those_of_the_job_that_is_on_it() -> None:
    clock = FakeClock()
    a100, t4 = bounded(clock, "a100", least=2, most=9), bounded(clock, "t4", most=5, able_most=3)

    state = await TypedPool({"a100": a100, "t4": t4, "any": MemoryPool(clock)}).observe()

    assert (state.towards("a100").least, state.towards("a100").most) == (2, 9)
    assert (state.towards("t4").least, state.towards("t4").most) == (0, 3)
    assert (state.towards("any").least, state.towards("any").most) == (0, None)


@pytest.mark.parametrize("bound", ["most", "able_most"])
async def test_more_than_the_pool_of_its_type_takes_is_not_asked_for(bound: str) -> None:
    fleet = await a_fleet("t4", 3, t4={bound: 3})
    fleet.meters["ads"].rate = 900.0
    fleet.loops["ads"].policy = replace(fleet.loops["ads"].policy, lone_rates={"t4": 100.0})

    ticks = await fleet.ticks(4)

    assert await fleet.asked("ads") == {"t4": 3}
    assert all(tick.decision and Reason.AT_PLATFORM in tick.decision.notes for tick in ticks)


@pytest.mark.parametrize(("most", "moves"), [(6, True), (1, False)])
async def test_a_job_is_not_moved_to_a_type_whose_pool_takes_too_few(most: int, moves: bool) -> None:
    """Two jobs on four a100, one of which could use them all, and t4 enough for it."""
    fleet = Fleet({"a100": 4, "t4": 6})
    await fleet.job(Standing("ads"), "a100", 2, types=("a100", "t4"))
    await fleet.job(Standing("feed", gpu_types=("a100",)), "a100", 2, types=("a100",))
    fleet.pools["ads"]["t4"] = bounded(fleet.clock, "t4", most=most)
    fleet.loops["ads"] = fleet.loop(Standing("ads"))
    await fleet.ticks(4)
    fleet.meters["ads"].rate, fleet.meters["feed"].rate = 390.0, 190.0

    await fleet.ticks(12)

    assert await fleet.asked("ads") == ({"t4": 4} if moves else {"a100": 2})


async def test_what_others_keep_of_a_type_that_was_left_is_asked_for_once() -> None:
    """A disruption budget on the old type: it stops there, and the job is settled on the new one."""
    fleet = await a_fleet("a100", 3, a100={"least": 1})
    fleet.meters["ads"].rate = 250.0
    await fleet.pools["ads"]["t4"].resize(PoolResize(3, "moves", fence=0))
    fleet.store.states["ads"] = ControlState(gpu_type="t4")

    ticks = await fleet.ticks(8)

    assert await fleet.asked("ads") == {"a100": 1, "t4": 3}
    left = fleet.pools["ads"]["a100"]
    assert isinstance(left, BoundedPool)
    assert left.asked.count(0) == 1
    last = ticks[-1].decision
    assert last is not None
    assert Reason.FLEET_MOVE not in last.notes
