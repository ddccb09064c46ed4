"""What no job needs for now is lent to a batch pool, and back before a job would miss it."""

from __future__ import annotations

from estimator.fleet import Budget, Standing
from services.actuator.memory_pool import MemoryPool
from services.control.errors import PoolUnavailable
from services.control.fleet_share import FleetShare, FleetTerms
from services.controller.batch_pool import BatchPool
from services.settings.fleet import BatchSettings
from services.settings.pool import PoolSettings
from tests.control.fakes import FakePool
from tests.control.test_fleet_share import Fleet

BATCH = BatchSettings(gpu_type="a100", pool=PoolSettings(command=["true"]))


def lent(fleet: Fleet, pool: MemoryPool | FakePool) -> BatchPool:
    return BatchPool(BATCH, fleet.share, pool, token=fleet.leadership.token)


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
