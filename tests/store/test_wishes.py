"""Wishes: the newest leader's is in force, wherever they are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from services.actuator.wish import MemoryWishes, Wish, Wishes
from services.control.errors import Fenced, Rejected
from services.control.types import PoolResize
from services.settings.root import RedisSettings
from services.store.connect import connect
from services.store.keys import Keys
from services.store.wishes import RedisWishes


@pytest.fixture(params=["memory", "redis"])
async def wishes(request: pytest.FixtureRequest) -> AsyncIterator[Wishes]:
    if request.param == "memory":
        yield MemoryWishes()
        return
    client = connect(RedisSettings(url=request.getfixturevalue("redis_url")))
    yield RedisWishes(client, Keys("test"))
    await client.aclose()


def wish(workers: int, *, fence: int) -> PoolResize:
    return PoolResize(workers, decision_id=f"ads-{workers}", fence=fence)


async def test_there_is_none_before_the_first(wishes: Wishes) -> None:
    assert await wishes.latest("ads") is None


async def test_the_latest_of_each_job_is_in_force(wishes: Wishes) -> None:
    await wishes.publish("ads", wish(2, fence=1_763_290_000_001))
    await wishes.publish("ads", wish(3, fence=1_763_290_000_001))
    await wishes.publish("shop", wish(9, fence=1))

    assert await wishes.latest("ads") == Wish(3, 1_763_290_000_001, "ads-3")


async def test_a_superseded_controller_is_refused(wishes: Wishes) -> None:
    await wishes.publish("ads", wish(2, fence=1_763_290_000_002))

    with pytest.raises(Fenced) as fenced:
        await wishes.publish("ads", wish(5, fence=1_763_290_000_001))

    assert fenced.value.newest == 1_763_290_000_002
    assert await wishes.latest("ads") == Wish(2, 1_763_290_000_002, "ads-2")


async def test_a_negative_size_is_refused(wishes: Wishes) -> None:
    with pytest.raises(Rejected):
        await wishes.publish("ads", wish(-1, fence=1))
