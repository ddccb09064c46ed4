"""The memory pool lives through time as a platform does."""

from __future__ import annotations

import random

import pytest

from services.actuator import MemoryPool
from services.control.types import PoolState, WorkerPhase
from tests.actuator.rigs import HandClock, ask, ids


async def test_workers_are_ready_after_their_start_up_time_and_not_before() -> None:
    clock = HandClock(0.0)
    pool = MemoryPool(clock, startup_s=10.0)
    await pool.resize(ask(2))

    clock.at_s = 9.9
    assert (await pool.observe()).ready == 0
    clock.at_s = 10.0

    assert (await pool.observe()).ready == 2
    assert [(start.asked_at_s, start.took_s) for start in pool.lead_times()] == [(0.0, 10.0), (0.0, 10.0)]


async def test_without_a_start_up_time_workers_are_ready_at_once() -> None:
    pool = MemoryPool(HandClock())
    await pool.resize(ask(2))

    assert (await pool.observe()).ready == 2


async def test_start_up_times_can_be_drawn_for_each_worker() -> None:
    clock = HandClock(0.0)
    draws = iter([5.0, 15.0])
    pool = MemoryPool(clock, startup_s=lambda: next(draws))
    await pool.resize(ask(2))
    clock.at_s = 5.0

    assert ids(await pool.observe(), WorkerPhase.READY) == {"w-1"}


async def test_draining_takes_its_time() -> None:
    clock = HandClock(0.0)
    pool = MemoryPool(clock, drain_s=4.0)
    await pool.resize(ask(1))

    await pool.resize(ask(0))

    assert ids(await pool.observe(), WorkerPhase.DRAINING) == {"w-1"}
    clock.at_s = 4.0
    assert (await pool.observe()).workers == ()


async def test_what_happened_does_not_depend_on_how_often_one_looks() -> None:
    async def live(*, looks: int) -> PoolState:
        clock, chance = HandClock(0.0), random.Random(7)
        pool = MemoryPool(
            clock,
            startup_s=lambda: chance.uniform(1.0, 9.0),
            lifetime_s=lambda: chance.expovariate(1 / 50.0),
            restart_s=2.0,
        )
        await pool.resize(ask(20))
        for look in range(looks):
            clock.at_s = 1000.0 * (look + 1) / looks
            await pool.observe()
        return await pool.observe()

    often, once = await live(looks=500), await live(looks=1)

    assert often == once
    assert often.failures > 100


async def test_a_worker_that_dies_at_once_is_replaced_for_ever_without_a_hang() -> None:
    clock = HandClock(0.0)
    pool = MemoryPool(clock, lifetime_s=lambda: 0.0, restart_s=1.0)
    await pool.resize(ask(1))
    clock.at_s = 10.5

    assert (await pool.observe()).failures == 11


async def test_a_worker_that_dies_while_it_drains_is_no_failure() -> None:
    clock = HandClock(0.0)
    pool = MemoryPool(clock, drain_s=10.0, lifetime_s=lambda: 5.0)
    await pool.resize(ask(1))
    await pool.resize(ask(0))
    clock.at_s = 6.0

    assert await pool.observe() == PoolState(requested=0)


async def test_a_place_refilled_by_growth_is_not_refilled_twice() -> None:
    clock = HandClock(0.0)
    pool = MemoryPool(clock, restart_s=5.0)
    await pool.resize(ask(2))
    pool.fail("w-1")
    await pool.resize(ask(3))
    clock.at_s = 20.0

    assert (await pool.observe()).ready == 3


async def test_an_unknown_worker_cannot_fail() -> None:
    with pytest.raises(KeyError):
        MemoryPool(HandClock()).fail("w-1")


def test_a_replacement_takes_some_time() -> None:
    with pytest.raises(ValueError, match="restart_s is 0"):
        MemoryPool(HandClock(), restart_s=0)
