"""What only a store in Redis has to bear: restarts, losses, strangers and other versions."""

import asyncio

import pytest
from redis.asyncio import Redis

from services.control.errors import ControlError, StateUnavailable, Transient
from services.control.types import ControlState
from services.embedded.redis import EmbeddedRedis
from services.settings.root import RedisSettings
from services.store.connect import connect
from services.store.errors import StateCorrupt
from services.store.keys import Keys
from services.store.redis_state import RedisState
from tests.store.faults import frozen, kill
from tests.store.worlds import a_decision, a_state, told


async def test_another_controller_goes_on_where_the_last_one_stopped(
    redis_url: str, client: Redis, keys: Keys
) -> None:
    await RedisState(client, keys).commit(a_decision(6), fence=1)

    async with connect(RedisSettings(url=redis_url)) as other:
        assert await RedisState(other, keys).load("clicks") == a_state(6)


async def test_an_emptied_redis_reads_as_one_never_used_and_the_fence_restarts(
    client: Redis, keys: Keys
) -> None:
    store = RedisState(client, keys)
    await store.commit(a_decision(1), fence=9)

    await client.flushdb()

    assert await store.load("clicks") == ControlState()
    assert await store.decisions("clicks") == ()
    await store.commit(a_decision(1), fence=3)


async def test_the_first_commit_after_a_loss_tells_the_workers_their_assignment_again(
    client: Redis, keys: Keys
) -> None:
    store = RedisState(client, keys)
    await store.commit(a_decision(1), fence=1)
    await client.flushdb()

    await store.commit(a_decision(2, changed=False), fence=1)

    assert await client.exists(keys.assignment("clicks"))


async def test_a_redis_that_goes_away_is_unavailable_until_it_is_back(
    own_server: EmbeddedRedis, own_client: Redis, keys: Keys
) -> None:
    store = RedisState(own_client, keys)
    await store.commit(a_decision(1), fence=1)
    kill(own_server)

    for ask in (store.load("clicks"), store.commit(a_decision(2), fence=1), store.decisions("clicks")):
        with pytest.raises(StateUnavailable, match=f"127.0.0.1:{own_server.port}"):
            await ask

    own_server.restart()
    await store.commit(a_decision(2), fence=1)
    assert await store.load("clicks") == a_state(2)


async def test_a_redis_that_hangs_is_unavailable_in_time_and_answers_are_not_mixed_up_afterwards(
    own_server: EmbeddedRedis, keys: Keys
) -> None:
    async with connect(RedisSettings(url=own_server.url, timeout_s=0.2)) as client:
        store = RedisState(client, keys)
        await store.commit(a_decision(1, job="orders"), fence=1)
        await store.commit(a_decision(2, job="clicks"), fence=1)

        with frozen(own_server):
            async with asyncio.timeout(10.0):  # far more than the client's patience
                with pytest.raises(StateUnavailable):
                    await store.load("orders")

        assert (await store.load("clicks")).sequence == 2


async def test_a_commit_that_may_or_may_not_have_arrived_can_be_repeated(
    own_server: EmbeddedRedis, keys: Keys
) -> None:
    async with connect(RedisSettings(url=own_server.url, timeout_s=0.2)) as client:
        store = RedisState(client, keys)
        await store.commit(a_decision(1), fence=1)
        with frozen(own_server), pytest.raises(StateUnavailable):
            await store.commit(a_decision(2), fence=1)

        await store.commit(a_decision(2), fence=1)

        assert await store.decisions("clicks") == (told(a_decision(2)), told(a_decision(1)))


async def test_a_state_of_a_newer_penstock_stops_the_job_and_is_left_alone(client: Redis, keys: Keys) -> None:
    store, newer = RedisState(client, keys), b'{"v":99,"state":{}}'
    await client.set(keys.state("clicks"), newer)

    with pytest.raises(StateCorrupt, match="upgrade this Penstock") as refused:
        await store.load("clicks")

    assert isinstance(refused.value, ControlError)  # the loop holds the pool and tells it
    assert not isinstance(refused.value, Transient)  # waiting will not mend it
    assert await client.get(keys.state("clicks")) == newer


@pytest.mark.parametrize("key", ["fence", "decisions"])
async def test_a_commit_that_fails_half_way_has_changed_nothing(client: Redis, keys: Keys, key: str) -> None:
    await client.hset(getattr(keys, key)("clicks"), "put here", "by a stranger")

    with pytest.raises(StateUnavailable, match="WRONGTYPE"):
        await RedisState(client, keys).commit(a_decision(1), fence=1)

    assert await client.keys("*") == [getattr(keys, key)("clicks").encode()]


async def test_a_commit_to_a_full_redis_changes_nothing(
    own_server: EmbeddedRedis, own_client: Redis, keys: Keys
) -> None:
    store = RedisState(own_client, keys)
    await store.commit(a_decision(1), fence=1)
    await own_client.config_set("maxmemory", "1")

    with pytest.raises(StateUnavailable, match="maxmemory"):
        await store.commit(a_decision(2, owner="w-8"), fence=2)

    await own_client.config_set("maxmemory", "0")
    assert await store.load("clicks") == a_state(1)
    assert await store.decisions("clicks") == (told(a_decision(1)),)
    await store.commit(a_decision(2), fence=1)


async def test_a_decision_that_cannot_be_read_does_not_hide_the_others(client: Redis, keys: Keys) -> None:
    store = RedisState(client, keys)
    await store.commit(a_decision(1), fence=1)
    await client.xadd(keys.decisions("clicks"), {"id": "clicks-2", "decision": '{"v":99,"decision":{}}'})
    await client.xadd(keys.decisions("clicks"), {"put here": "by a stranger"})
    await store.commit(a_decision(3), fence=1)

    assert [decision.id for decision in await store.decisions("clicks")] == ["clicks-3", "clicks-1"]


async def test_two_prefixes_share_nothing(client: Redis) -> None:
    await RedisState(client, Keys("one")).commit(a_decision(1), fence=9)
    await RedisState(client, Keys("two")).commit(a_decision(5), fence=2)

    assert (await RedisState(client, Keys("one")).load("clicks")).sequence == 1


async def test_scripts_forgotten_by_the_server_are_sent_again(own_client: Redis, keys: Keys) -> None:
    store = RedisState(own_client, keys)
    await store.commit(a_decision(1), fence=1)

    await own_client.script_flush()

    await store.commit(a_decision(2), fence=1)
