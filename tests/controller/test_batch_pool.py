"""What no job needs for now is lent to a batch pool, and back before a job would miss it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.fleet import Budget, JobId, Standing
from estimator.fleet.lending import LendingTerms
from services.actuator.memory_pool import MemoryPool
from services.control.errors import PoolUnavailable
from services.control.fleet_share import FleetShare, FleetTerms, Grant
from services.control.types import PoolCapabilities, Reason, Victims
from services.controller.batch_pool import BatchPool
from services.settings.fleet import BatchSettings
from services.settings.pool import PoolSettings
from tests.control.fakes import FakePool
from tests.control.test_fleet_share import Fleet

BATCH = BatchSettings(gpu_type="a100", pool=PoolSettings(command=["true"]))


def lent(fleet: Fleet, pool: MemoryPool | FakePool, settings: BatchSettings = BATCH) -> BatchPool:
    return BatchPool(settings, fleet.share, pool, token=fleet.leadership.token)


async def test_a_batch_pool_has_what_no_job_has_or_wishes_for() -> None:
    fleet = Fleet(10, Standing("ads"), Standing("feed"))
    fleet.wants(ads=350, feed=250)
    await fleet.ticks(3)
    pool = MemoryPool(fleet.clock, drain_s=15.0)

    await lent(fleet, pool).tend()

    assert (await pool.observe()).requested == 3


async def test_jobs_grow_into_lent_gpus_only_when_those_are_given_back() -> None:
    fleet = Fleet(10, Standing("ads"), Standing("feed"))
    fleet.wants(ads=350, feed=250)
    await fleet.ticks(3)
    pool = MemoryPool(fleet.clock, drain_s=15.0)
    batch = lent(fleet, pool)
    await batch.tend()

    fleet.wants(ads=650)
    for _ in range(4):
        asked = await fleet.ticks(1)
        await batch.tend()
        state = await pool.observe()
        assert sum(asked.values()) + len(state.workers) <= 10

    assert await fleet.ticks(1) == {"ads": 7, "feed": 3}
    assert (await pool.observe()).requested == 0


async def test_a_guarantee_is_taken_back_when_the_forecast_rises_before_the_traffic_does() -> None:
    fleet = Fleet(8, Standing("feed", guaranteed=5))
    fleet.ahead["feed"].rate = 50.0
    fleet.wants(feed=50)
    await fleet.ticks(3)
    pool = MemoryPool(fleet.clock)
    batch = lent(fleet, pool)
    await batch.tend()
    assert (await pool.observe()).requested == 7

    fleet.ahead["feed"].rate = 450.0
    await fleet.ticks(1)
    await batch.tend()

    assert (await pool.observe()).requested == 3


async def test_before_everybody_has_spoken_nothing_is_lent() -> None:
    fleet = Fleet(8, Standing("ads"))
    pool = MemoryPool(fleet.clock)
    await fleet.ticks(1)

    await lent(fleet, pool).tend()

    assert (await pool.observe()).requested == 0


async def test_a_pool_that_does_not_answer_is_told_and_a_follower_does_nothing() -> None:
    fleet = Fleet(8, Standing("ads"))
    await fleet.ticks(3)
    broken = FakePool(0, failure=PoolUnavailable("nobody is there"))
    batch = lent(fleet, broken)

    assert await batch.tend()
    assert batch.trouble == "nobody is there"

    fleet.leadership.leads_with = None
    assert not await batch.tend()


def test_without_jobs_nothing_is_known_to_be_idle() -> None:
    share = FleetShare(FleetTerms(Budget.counted({"a100": 8})), interval_s=10.0)

    assert share.idle("a100") == 0.0


async def in_turn(fleet: Fleet, batch: BatchPool, rounds: int) -> dict[str, int]:
    """What the jobs have asked for after the pool was sized and they have spoken, so many times."""
    asked = {}
    for _ in range(rounds):
        await batch.tend()
        asked = await fleet.ticks(1)
    return asked


def standing_by(gpus: int, standbys: int) -> Fleet:
    """One job that trains with three workers beside some that stand by."""
    fleet = Fleet(gpus, Standing("ads"))
    fleet.loops["ads"].policy = replace(fleet.loops["ads"].policy, standbys=standbys)
    fleet.pools["ads"].able = PoolCapabilities(True, True, Victims.ANY, standbys=True)
    fleet.wants(ads=250)
    return fleet


async def test_standbys_are_lent_and_back_before_the_traffic_that_is_forecast() -> None:
    fleet = standing_by(8, standbys=3)
    fleet.share.terms = replace(fleet.share.terms, lending=LendingTerms(return_s=600.0))
    fleet.ahead["ads"].rate = 250.0
    pool = MemoryPool(fleet.clock)
    batch = lent(fleet, pool)
    assert await fleet.ticks(3) == {"ads": 6}
    asked = await in_turn(fleet, batch, 2)
    await batch.tend()

    assert asked == {"ads": 3}
    assert (await pool.observe()).requested == 5
    assert fleet.share.standbys_lent() == {JobId("", "ads"): 3}
    assert fleet.store.log[-1].numbers["standbys_lent"] == 3.0
    assert fleet.last("ads") is not Reason.FLEET_SHARE

    # Nearer than what is lent could be back and loaded, and too far for the rule to ask for workers.
    fleet.ahead["ads"].rises = (fleet.clock.at_s + 400.0, 450.0)
    for _ in range(4):
        now = await fleet.ticks(1)
        await batch.tend()
        assert now["ads"] + len((await pool.observe()).workers) <= 8

    decision = fleet.store.log[-1]
    assert (decision.planned, decision.standbys) == (5, 2)
    assert fleet.share.standbys_lent() == {JobId("", "ads"): 1}
    assert (await pool.observe()).requested == 3


async def test_a_standby_is_lent_only_where_the_batch_pool_can_use_it() -> None:
    fleet = standing_by(8, standbys=3)
    fleet.ahead["ads"].rate = 250.0
    await fleet.ticks(3)
    pool = MemoryPool(fleet.clock)
    small = BATCH.model_copy(update={"workers_max": 3})
    asked = await in_turn(fleet, lent(fleet, pool, small), 3)

    assert asked == {"ads": 5}  # two were idle anyhow


@pytest.mark.parametrize("why", ["not to be lent", "no forecast", "the pool does not answer"])
async def test_standbys_stay_where_nothing_says_that_they_may_go(why: str) -> None:
    fleet = standing_by(8, standbys=3)
    fleet.ahead["ads"].rate = None if why == "no forecast" else 250.0
    await fleet.ticks(3)
    pool = FakePool(0, failure=PoolUnavailable("away")) if "answer" in why else MemoryPool(fleet.clock)
    settings = BATCH.model_copy(update={"standbys": why != "not to be lent"})
    asked = await in_turn(fleet, lent(fleet, pool, settings), 3)

    assert asked == {"ads": 6}


async def test_standbys_within_the_guarantee_are_lent_too() -> None:
    fleet = standing_by(6, standbys=3)
    fleet.loops["ads"].policy = replace(fleet.loops["ads"].policy, standing=Standing("ads", guaranteed=6))
    fleet.ahead["ads"].rate = 250.0
    await fleet.ticks(3)
    pool = MemoryPool(fleet.clock)
    asked = await in_turn(fleet, lent(fleet, pool), 3)

    assert asked == {"ads": 3}
    assert (await pool.observe()).requested == 3


async def test_when_the_batch_pool_goes_the_standbys_come_back() -> None:
    fleet = standing_by(8, standbys=2)
    fleet.ahead["ads"].rate = 250.0
    pool = FakePool(0)
    batch = lent(fleet, pool)
    await fleet.ticks(3)
    asked = await in_turn(fleet, batch, 2)
    assert asked == {"ads": 3}

    pool.failure = PoolUnavailable("away")
    await batch.tend()
    pool.requested = 0

    assert fleet.share.standbys_lent() == {JobId("", "ads"): 2}
    await fleet.ticks(1)
    assert fleet.share.standbys_lent() == {}


async def test_a_batch_worker_that_slows_down_a_guaranteed_one_is_the_one_that_leaves() -> None:
    fleet = Fleet(4, Standing("ads"))
    await fleet.ticks(3)
    pool = FakePool(2)
    batch = lent(fleet, pool, BATCH.model_copy(update={"gpus_per_worker": 0.5}))
    fleet.share.beside = lambda *_, **__: Grant(1, leave=("w-0",))  # type: ignore[method-assign]

    await batch.tend()

    assert [(resize.workers, resize.remove) for resize in pool.asked] == [(1, ("w-0",))]
