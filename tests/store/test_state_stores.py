"""What every StateStore promises, on each of them."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest
from redis.asyncio import Redis

from services.control.actuation import Outcome, Settlement
from services.control.errors import Fenced
from services.control.ports import StateStore
from services.control.types import ControlState, PoolResize
from services.store import codec
from services.store.keys import Keys
from services.store.memory_state import MemoryState
from services.store.redis_state import RedisState
from shuffler.assignment import Assignment
from tests.store.worlds import a_decision, told

KEPT = 20


@dataclass(frozen=True)
class Kind:
    """A store, and how its workers learn their assignment."""

    store: StateStore
    assignment: Callable[[str], Awaitable[Assignment]]


@pytest.fixture(params=["memory", "redis"])
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param == "memory":
        memory = MemoryState(decisions_kept=KEPT)

        async def held(job: str) -> Assignment:
            return memory.assignment(job)

        return Kind(memory, held)
    redis: Redis = request.getfixturevalue("client")
    keys = Keys("penstock")

    async def published(job: str) -> Assignment:
        raw = await redis.get(keys.assignment(job))
        return Assignment() if raw is None else codec.decode_assignment(raw, key=keys.assignment(job))

    return Kind(RedisState(redis, keys, decisions_kept=KEPT), published)


@pytest.fixture
def store(kind: Kind) -> StateStore:
    return kind.store


async def test_a_job_never_seen_has_a_fresh_state_and_no_decisions(store: StateStore) -> None:
    assert await store.load("clicks") == ControlState()
    assert await store.decisions("clicks") == ()


async def test_the_state_last_committed_is_the_one_loaded(store: StateStore) -> None:
    await store.commit(a_decision(1), fence=1)
    await store.commit(a_decision(2), fence=1)

    assert await store.load("clicks") == a_decision(2).state


async def test_decisions_come_back_newest_first_without_their_states(store: StateStore) -> None:
    for sequence in (1, 2, 3):
        await store.commit(a_decision(sequence), fence=1)

    assert await store.decisions("clicks") == tuple(told(a_decision(n)) for n in (3, 2, 1))


@pytest.mark.parametrize(("limit", "ids"), [(2, ("clicks-3", "clicks-2")), (0, ()), (-1, ())])
async def test_no_more_decisions_come_back_than_asked_for(
    store: StateStore, limit: int, ids: tuple[str, ...]
) -> None:
    for sequence in (1, 2, 3):
        await store.commit(a_decision(sequence), fence=1)

    assert tuple(d.id for d in await store.decisions("clicks", limit=limit)) == ids


async def test_only_the_latest_decisions_are_kept(store: StateStore) -> None:
    for sequence in range(1, KEPT + 6):
        await store.commit(a_decision(sequence), fence=1)

    kept = await store.decisions("clicks", limit=1000)
    assert [d.id for d in kept] == [f"clicks-{n}" for n in range(KEPT + 5, 5, -1)]


async def test_a_decision_committed_again_replaces_its_first_record(store: StateStore) -> None:
    """After a commit of unknown outcome the loop decides anew under the same id."""
    for sequence in range(1, KEPT + 1):
        await store.commit(a_decision(sequence), fence=1)
    later = replace(a_decision(KEPT), at_s=9_999.0)

    await store.commit(later, fence=1)

    kept = await store.decisions("clicks", limit=1000)
    assert kept[0] == told(later)
    assert [d.id for d in kept] == [f"clicks-{n}" for n in range(KEPT, 0, -1)]


async def test_workers_are_told_the_assignment(kind: Kind) -> None:
    await kind.store.commit(a_decision(1, owner="w-7"), fence=1)

    assert (await kind.assignment("clicks")).partitions_of("w-7") == (0, 1)


async def test_a_decision_that_leaves_the_assignment_alone_leaves_it_published(kind: Kind) -> None:
    await kind.store.commit(a_decision(1, owner="w-7"), fence=1)
    await kind.store.commit(a_decision(2, owner="w-7", changed=False), fence=1)

    assert (await kind.assignment("clicks")).partitions_of("w-7") == (0, 1)


async def test_an_older_token_is_refused_and_changes_nothing(kind: Kind) -> None:
    await kind.store.commit(a_decision(1, owner="w-new"), fence=8)

    with pytest.raises(Fenced) as refused:
        await kind.store.commit(a_decision(2, owner="w-old"), fence=7)

    assert (refused.value.token, refused.value.newest) == (7, 8)
    assert await kind.store.load("clicks") == a_decision(1, owner="w-new").state
    assert await kind.store.decisions("clicks") == (told(a_decision(1, owner="w-new")),)
    assert (await kind.assignment("clicks")).partitions_of("w-old") == ()


async def test_a_token_of_todays_size_is_told_from_its_neighbours(store: StateStore) -> None:
    now_ms = 1_790_000_000_001

    await store.commit(a_decision(1), fence=now_ms)

    with pytest.raises(Fenced):
        await store.commit(a_decision(2), fence=now_ms - 1)
    await store.commit(a_decision(2), fence=now_ms + 1)


async def test_the_same_and_newer_tokens_may_commit(store: StateStore) -> None:
    for sequence, fence in enumerate((5, 5, 6), start=1):
        await store.commit(a_decision(sequence), fence=fence)

    assert (await store.load("clicks")).sequence == 3


async def test_a_refused_commit_does_not_lower_the_fence(store: StateStore) -> None:
    await store.commit(a_decision(1), fence=8)
    for fence in (7, 7):
        with pytest.raises(Fenced):
            await store.commit(a_decision(2), fence=fence)


async def test_jobs_do_not_touch_each_other(store: StateStore) -> None:
    await store.commit(a_decision(4, job="clicks"), fence=9)
    await store.commit(a_decision(1, job="orders"), fence=2)

    assert (await store.load("clicks")).sequence == 4
    assert (await store.load("orders")).sequence == 1
    assert [d.id for d in await store.decisions("orders")] == ["orders-1"]


async def test_of_two_controllers_at_once_the_older_never_follows_the_newer(store: StateStore) -> None:
    async def commit(sequence: int, fence: int) -> None:
        try:
            await store.commit(a_decision(sequence, fence=fence), fence=fence)
        except Fenced:
            assert fence == 1

    for n in range(1, KEPT, 2):
        await asyncio.gather(commit(n, fence=1), commit(n + 1, fence=2))

    fences = [d.numbers["fence"] for d in await store.decisions("clicks")]
    assert fences == sorted(fences, reverse=True)
    assert 2.0 in fences


# The trail of resizes


async def test_a_job_never_resized_has_no_trail(store: StateStore) -> None:
    await store.commit(replace(a_decision(1), resize=None), fence=1)

    assert await store.actuations("clicks") == ()


async def test_what_was_asked_for_is_in_the_trail_with_its_commit(store: StateStore) -> None:
    await store.commit(a_decision(1), fence=7)

    assert await store.actuations("clicks") == (a_decision(1).actuation,)


async def test_an_actuation_is_marked_once_by_whoever_comes_first(store: StateStore) -> None:
    await store.commit(a_decision(1), fence=1)
    for outcome in (Outcome.DONE, Outcome.REFUSED):
        await store.settle("clicks", Settlement("clicks-1", 1_002.0, outcome, "in words"))

    (told_of,) = await store.actuations("clicks")
    assert (told_of.outcome, told_of.ended_at_s, told_of.why) == (Outcome.DONE, 1_002.0, "in words")


async def test_an_actuation_that_never_ended_is_superseded_by_the_next(store: StateStore) -> None:
    await store.commit(a_decision(1), fence=1)
    await store.commit(a_decision(2), fence=1)
    await store.settle("clicks", Settlement("clicks-1", 1_009.0, Outcome.DONE))

    newer, older = await store.actuations("clicks")
    assert (newer.decision_id, newer.outcome) == ("clicks-2", Outcome.ASKED)
    assert (older.decision_id, older.outcome, older.ended_at_s) == ("clicks-1", Outcome.SUPERSEDED, 1_002.0)


async def test_a_decision_without_a_resize_leaves_the_trail_alone(store: StateStore) -> None:
    await store.commit(a_decision(1), fence=1)
    await store.commit(replace(a_decision(2), resize=None), fence=1)
    await store.settle("clicks", Settlement("clicks-1", 1_009.0, Outcome.DONE))

    assert [one.outcome for one in await store.actuations("clicks")] == [Outcome.DONE]


@pytest.mark.parametrize("again", [True, False])
async def test_a_decision_made_again_takes_back_what_it_asked_for_first(
    store: StateStore, again: bool
) -> None:
    await store.commit(a_decision(1), fence=1)
    await store.commit(a_decision(1) if again else replace(a_decision(1), resize=None), fence=1)

    trail = await store.actuations("clicks")
    assert [(one.decision_id, one.outcome) for one in trail] == [("clicks-1", Outcome.ASKED)] * again


async def test_a_refused_commit_leaves_no_trail(store: StateStore) -> None:
    await store.commit(replace(a_decision(1), resize=None), fence=8)
    with pytest.raises(Fenced):
        await store.commit(a_decision(2), fence=7)

    assert await store.actuations("clicks") == ()


async def test_the_trail_keeps_the_latest_newest_first(store: StateStore) -> None:
    for sequence in range(1, KEPT + 6):
        await store.commit(a_decision(sequence), fence=1)
        await store.settle("clicks", Settlement(f"clicks-{sequence}", 2_000.0, Outcome.DONE))

    trail = await store.actuations("clicks", limit=1000)
    assert [one.decision_id for one in trail] == [f"clicks-{n}" for n in range(KEPT + 5, 5, -1)]
    assert {one.outcome for one in trail} == {Outcome.DONE}
    assert len(await store.actuations("clicks", limit=3)) == 3
    assert await store.actuations("clicks", limit=0) == ()


async def test_equal_refusals_in_a_row_are_one_entry_with_a_count(store: StateStore) -> None:
    await store.commit(a_decision(1), fence=1)
    await store.settle("clicks", Settlement("clicks-1", 1_001.5, Outcome.DONE))
    for sequence in range(2, 3 * KEPT):
        await store.commit(a_decision(sequence), fence=1)
        await store.settle("clicks", Settlement(f"clicks-{sequence}", 2_000.0, Outcome.REFUSED, "an HPA"))

    refused, done = await store.actuations("clicks")
    assert (refused.decision_id, refused.at_s) == (f"clicks-{3 * KEPT - 1}", 1_000.0 + 3 * KEPT - 1)
    assert (refused.times, refused.first_at_s, refused.why) == (3 * KEPT - 2, 1_002.0, "an HPA")
    assert (done.outcome, done.times, done.first_at_s) == (Outcome.DONE, 1, None)


@pytest.mark.parametrize(("why", "workers"), [("a quota", 3), ("an HPA", 4)])
async def test_another_refusal_or_another_size_is_an_entry_of_its_own(
    store: StateStore, why: str, workers: int
) -> None:
    await store.commit(a_decision(1), fence=1)
    await store.settle("clicks", Settlement("clicks-1", 1_002.0, Outcome.REFUSED, "an HPA"))
    other = replace(a_decision(2), resize=PoolResize(workers, decision_id="clicks-2", fence=1))
    await store.commit(other, fence=1)
    await store.settle("clicks", Settlement("clicks-2", 1_003.0, Outcome.REFUSED, why))

    assert [one.times for one in await store.actuations("clicks")] == [1, 1]


async def test_a_platform_that_never_answers_is_told_of_once_too(store: StateStore) -> None:
    for sequence in range(1, 5):
        await store.commit(a_decision(sequence), fence=1)

    asked, superseded = await store.actuations("clicks")
    assert (asked.outcome, asked.times) == (Outcome.ASKED, 1)
    assert (superseded.outcome, superseded.times) == (Outcome.SUPERSEDED, 3)
    assert superseded.first_at_s == 1_001.0
