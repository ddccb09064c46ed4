"""Of several controllers on one Redis one leads, and its token is higher than any before."""

import random

import pytest
from redis.asyncio import Redis

from services.clock import VirtualClock
from services.embedded.redis import EmbeddedRedis
from services.store.keys import Keys
from services.store.leader import AloneLeads, RedisLeadership
from tests.store.faults import kill
from tests.store.waiting import eventually

TTL_S = 10.0


class Contender:
    """A controller whose own clock stands still unless the test moves it."""

    def __init__(self, client: Redis, keys: Keys, *, ttl_s: float = TTL_S) -> None:
        self.clock = VirtualClock()
        self.leadership = RedisLeadership(
            client, keys, ttl_s=ttl_s, elapsed_s=self.clock.now_s, sleep=self._sleep
        )

    async def _sleep(self, for_s: float) -> None:
        await self.clock.sleep_until(self.clock.now_s() + for_s)

    async def attempt(self) -> int | None:
        await self.leadership.attempt()
        return self.leadership.token()

    async def leads(self) -> bool:
        return await self.attempt() is not None


async def pass_the_millisecond(client: Redis, token: int) -> None:
    """Until the server's clock is past `token`: an emptied Redis has nothing else to go by."""

    async def passed() -> bool:
        seconds, micros = await client.time()
        return seconds * 1000 + micros // 1000 > token

    await eventually(passed)


async def test_alone_one_leads_from_the_first_attempt(client: Redis, keys: Keys) -> None:
    token = await Contender(client, keys).attempt()

    assert token is not None
    assert token > 1_600_000_000_000  # the server's time in milliseconds


async def test_of_two_contenders_exactly_one_leads(client: Redis, keys: Keys) -> None:
    one, two = Contender(client, keys), Contender(client, keys)

    for _ in range(3):
        assert (await one.leads(), await two.leads()) == (True, False)


async def test_nobody_leads_before_the_first_attempt(client: Redis, keys: Keys) -> None:
    assert Contender(client, keys).leadership.token() is None


async def test_the_token_stays_while_the_lease_is_renewed(client: Redis, keys: Keys) -> None:
    one = Contender(client, keys)
    first = await one.attempt()

    for _ in range(20):
        one.clock.advance(TTL_S / 5)
        assert await one.attempt() == first


async def test_when_the_leader_falls_silent_the_other_leads_with_a_higher_token(
    client: Redis, keys: Keys
) -> None:
    silent, other = Contender(client, keys, ttl_s=0.1), Contender(client, keys)
    first = await silent.attempt()
    assert first is not None

    await eventually(other.leads)

    assert (other.leadership.token() or 0) > first
    assert await silent.attempt() is None


async def test_a_released_lease_is_taken_at_once(client: Redis, keys: Keys) -> None:
    one, two = Contender(client, keys), Contender(client, keys)
    first = await one.attempt()
    assert first is not None

    await one.leadership.release()

    assert one.leadership.token() is None
    assert (await two.attempt() or 0) > first


async def test_releasing_does_not_take_the_lease_from_another(client: Redis, keys: Keys) -> None:
    one, two = Contender(client, keys), Contender(client, keys)
    await one.attempt()

    await two.leadership.release()

    assert await two.attempt() is None
    assert await one.leads()


async def test_the_token_grows_when_redis_was_emptied(client: Redis, keys: Keys) -> None:
    one, two = Contender(client, keys), Contender(client, keys)
    first = await one.attempt()
    assert first is not None
    await client.flushdb()
    await pass_the_millisecond(client, first)

    second = await two.attempt()

    assert (second or 0) > first
    assert await one.attempt() is None


async def test_the_token_grows_when_redis_was_emptied_and_its_clock_set_back(
    client: Redis, keys: Keys
) -> None:
    """A contender remembers the highest token it ever had, whatever Redis says."""
    one = Contender(client, keys)
    await client.set(keys.leader_token(), 9_000_000_000_000)
    first = await one.attempt()
    await client.flushdb()

    assert first == 9_000_000_000_001
    assert await one.attempt() == first + 1


async def test_the_token_grows_when_redis_was_restarted(
    own_server: EmbeddedRedis, own_client: Redis, keys: Keys
) -> None:
    one, two = (Contender(own_client, keys, ttl_s=1.0) for _ in range(2))
    first = await one.attempt()
    assert first is not None
    await one.leadership.release()
    kill(own_server)
    own_server.restart()
    await pass_the_millisecond(own_client, first)

    # A server that is killed may forget the last second, the release too: then the lease has to lapse.
    await eventually(two.leads)
    assert (two.leadership.token() or 0) > first


async def test_cut_off_from_redis_a_leader_stops_by_itself_before_the_lease_ends(
    own_server: EmbeddedRedis, own_client: Redis, keys: Keys
) -> None:
    one = Contender(own_client, keys)
    first = await one.attempt()
    kill(own_server)

    one.clock.advance(TTL_S / 2)
    assert await one.attempt() == first  # an outage shorter than the lease is nothing
    one.clock.advance(TTL_S / 2 - 1)
    assert one.leadership.token() is None
    assert await one.attempt() is None


async def test_after_an_outage_it_leads_again_with_a_higher_token(
    own_server: EmbeddedRedis, own_client: Redis, keys: Keys
) -> None:
    one = Contender(own_client, keys)
    first = await one.attempt()
    assert first is not None
    kill(own_server)
    one.clock.advance(TTL_S)
    assert await one.attempt() is None

    own_server.restart()

    assert (await one.attempt() or 0) > first


async def test_a_lapsed_lease_is_taken_anew_even_when_redis_still_has_it(client: Redis, keys: Keys) -> None:
    """Others may have led meanwhile and Redis have been set back: go on only with a token above theirs."""
    one = Contender(client, keys)
    first = await one.attempt()
    assert first is not None
    one.clock.advance(TTL_S)

    assert (await one.attempt() or 0) > first


async def test_the_lease_is_counted_from_when_it_was_asked_for_not_from_the_answer(
    client: Redis, keys: Keys
) -> None:
    class Hurried:
        """A second passes between any two looks at the clock."""

        now_s = 0.0

        def __call__(self) -> float:
            self.now_s += 1.0
            return self.now_s

    clock = Hurried()
    leadership = RedisLeadership(client, keys, ttl_s=10.0, elapsed_s=clock)
    await leadership.attempt()  # asked for at 1: ours, with a fifth to spare, until 9

    clock.now_s = 7.9
    assert leadership.token() is not None
    clock.now_s = 8.0
    assert leadership.token() is None


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_at_most_one_leads_and_tokens_only_grow(
    client: Redis, keys: Keys, seed: int
) -> None:
    dice = random.Random(seed)
    contenders = [Contender(client, keys) for _ in range(4)]
    tokens: list[int] = []
    for _ in range(200):
        one = dice.choice(contenders)
        fate = dice.random()
        if fate < 0.1:
            await one.leadership.release()
        elif fate < 0.2:
            # The lease lapses: for Redis now, for its owner a fifth earlier.
            for each in contenders:
                each.clock.advance(TTL_S * 0.8)
            await client.delete(keys.leader())
        token = await one.attempt()
        if token is not None and token not in tokens:
            tokens.append(token)
        leading = [each for each in contenders if each.leadership.token() is not None]
        assert len(leading) <= 1, f"{seed=}"

    assert tokens == sorted(tokens), f"{seed=}"
    assert len(tokens) > 10, f"{seed=}: the lease hardly ever changed hands"


async def test_in_its_context_it_renews_by_itself_and_releases_at_the_end(client: Redis, keys: Keys) -> None:
    one, two = Contender(client, keys), Contender(client, keys)

    async def asleep() -> bool:
        return one.clock.next_wake_s() > one.clock.now_s() and one.clock.next_wake_s() < float("inf")

    async with one.leadership as leadership:
        first = leadership.token()
        assert first is not None
        for _ in range(15):  # three time-to-lives
            await eventually(asleep)
            one.clock.advance_to(one.clock.next_wake_s())
        await eventually(asleep)
        assert leadership.token() == first
        assert not await two.leads()

    assert leadership.token() is None
    assert await two.leads()


async def test_it_leads_by_itself_once_redis_comes_up(
    own_server: EmbeddedRedis, own_client: Redis, keys: Keys
) -> None:
    kill(own_server)
    one = Contender(own_client, keys)

    async with one.leadership as leadership:
        assert leadership.token() is None
        own_server.restart()

        async def leads() -> bool:
            if one.clock.next_wake_s() < float("inf"):
                one.clock.advance_to(one.clock.next_wake_s())
            return leadership.token() is not None

        await eventually(leads)


async def test_leaving_while_redis_is_away_raises_nothing(
    own_server: EmbeddedRedis, own_client: Redis, keys: Keys
) -> None:
    async with Contender(own_client, keys).leadership as leadership:
        kill(own_server)

    assert leadership.token() is None


async def test_an_error_that_nobody_foresaw_comes_out_at_the_end(client: Redis, keys: Keys) -> None:
    async def broken(_for_s: float) -> None:
        raise ZeroDivisionError

    leadership = RedisLeadership(client, keys, ttl_s=TTL_S, sleep=broken)

    async def campaign_ended() -> bool:
        return leadership._campaign is not None and leadership._campaign.done()

    with pytest.raises(ZeroDivisionError):
        async with leadership:
            await eventually(campaign_ended)
    assert not await client.exists(keys.leader())


async def test_people_can_see_who_leads_and_until_when(client: Redis, keys: Keys) -> None:
    one = Contender(client, keys)
    await one.attempt()

    assert await client.get(keys.leader()) == one.leadership.owner.encode()
    assert 0 < await client.pttl(keys.leader()) <= TTL_S * 1000


def test_who_is_alone_leads() -> None:
    assert AloneLeads().token() == 1
    assert AloneLeads(token=7).token() == 7
