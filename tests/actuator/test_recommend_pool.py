"""A pool that only recommends shows what is there, and changes nothing."""

from __future__ import annotations

from services.actuator import MemoryPool, RecommendPool
from services.control.types import PoolState, Victims
from tests.actuator.rigs import HandClock, ask


async def test_advice_is_remembered_and_not_carried_out() -> None:
    watched = MemoryPool(HandClock())
    await watched.resize(ask(2))
    before = await watched.observe()
    pool = RecommendPool(watched)

    await pool.resize(ask(5))

    assert pool.advised == ask(5)
    assert await pool.observe() == await watched.observe() == before


async def test_advice_never_counts_as_requested() -> None:
    pool = RecommendPool()
    await pool.resize(ask(5))

    assert await pool.observe() == PoolState(requested=0)


async def test_a_pool_that_gave_no_advice_has_none() -> None:
    assert RecommendPool().advised is None


async def test_it_can_do_what_the_watched_pool_can() -> None:
    watched = MemoryPool(HandClock())

    assert RecommendPool(watched).capabilities() == watched.capabilities()
    assert RecommendPool().capabilities().victims is Victims.NONE
    assert not RecommendPool().capabilities().standbys
