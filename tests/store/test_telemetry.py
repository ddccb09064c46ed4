"""What every Telemetry promises, on each of them; and the assignment on its way to the workers."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from redis.asyncio import Redis

from services.clock import VirtualClock
from services.control.errors import StateUnavailable
from services.control.ports import Telemetry
from services.control.types import WorkerReport
from services.embedded.redis import EmbeddedRedis
from services.store import codec
from services.store.errors import StateCorrupt
from services.store.keys import Keys
from services.store.redis_state import RedisState
from services.store.reports import AssignmentReader, MemoryReports, RedisReports, ReportWriter
from shuffler.assignment import Assignment
from tests.store.faults import kill
from tests.store.waiting import eventually
from tests.store.worlds import a_decision, a_report


@dataclass(frozen=True)
class Kind:
    """A telemetry, and what the workers do to it."""

    telemetry: Telemetry
    write: Callable[[WorkerReport], None]
    forget: Callable[[str], None]
    expire: Callable[[], Awaitable[None]]
    """Time passes until reports written before have expired."""


def memory_kind() -> Kind:
    clock = VirtualClock()
    reports = MemoryReports(clock, ttl_s=5.0)

    async def expire() -> None:
        clock.advance(5.0)

    return Kind(reports, reports.write, reports.forget, expire)


def redis_kind(client: Redis, url: str, keys: Keys, open_until_the_end: ExitStack) -> Kind:
    writers: dict[str, ReportWriter] = {}

    def write(report: WorkerReport) -> None:
        if report.worker not in writers:
            writers[report.worker] = open_until_the_end.enter_context(ReportWriter(url, "clicks"))
        writers[report.worker].write(report)

    async def expire() -> None:
        # The time-to-live passes at once: the server's own expiry does the rest.
        for key in await client.keys(keys.report("clicks", "*").replace("{", "[{]")):
            await client.pexpire(key, 1)

        async def expired() -> bool:
            return not await client.keys(keys.report("clicks", "*"))

        await eventually(expired)

    return Kind(RedisReports(client, keys, "clicks"), write, lambda worker: writers[worker].forget(), expire)


@pytest.fixture(params=["memory", "redis"])
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    if request.param == "memory":
        yield memory_kind()
        return
    client, url, keys = (request.getfixturevalue(name) for name in ("client", "redis_url", "keys"))
    with ExitStack() as open_until_the_end:
        yield redis_kind(client, url, keys, open_until_the_end)


async def test_nobody_has_said_anything_yet(kind: Kind) -> None:
    assert await kind.telemetry.reports() == ()


async def test_the_latest_report_of_each_worker_is_read_in_order_of_their_names(kind: Kind) -> None:
    for worker, trained in (("w-2", 1), ("w-1", 2), ("w-2", 30)):
        kind.write(a_report(worker, trained=trained))

    assert await kind.telemetry.reports() == (a_report("w-1", trained=2), a_report("w-2", trained=30))


async def test_who_leaves_is_forgotten_at_once_and_the_others_stay(kind: Kind) -> None:
    kind.write(a_report("w-1"))
    kind.write(a_report("w-2"))

    kind.forget("w-1")

    assert await kind.telemetry.reports() == (a_report("w-2"),)


async def test_who_falls_silent_vanishes_and_may_come_back(kind: Kind) -> None:
    kind.write(a_report("w-1"))
    kind.write(a_report("w-2"))
    await kind.expire()
    kind.write(a_report("w-2"))

    assert await kind.telemetry.reports() == (a_report("w-2"),)
    kind.write(a_report("w-1"))
    assert await kind.telemetry.reports() == (a_report("w-1"), a_report("w-2"))


async def test_a_report_expires_by_itself_after_its_time_to_live(
    client: Redis, redis_url: str, keys: Keys
) -> None:
    telemetry = RedisReports(client, keys, "clicks")
    with ReportWriter(redis_url, "clicks", ttl_s=0.05) as writer:
        writer.write(a_report())

        async def vanished() -> bool:
            return await telemetry.reports() == ()

        await eventually(vanished)


async def test_nothing_that_workers_write_stays_for_ever(client: Redis, redis_url: str, keys: Keys) -> None:
    with ReportWriter(redis_url, "clicks", ttl_s=60.0) as writer:
        writer.write(a_report())

    left = {key: await client.pttl(key) for key in await client.keys("*")}
    assert left.keys() == {keys.workers("clicks").encode(), keys.report("clicks", "w-1").encode()}
    assert all(0 < ttl_ms <= 120_000 for ttl_ms in left.values())


async def test_who_leaves_leaves_nothing_behind(client: Redis, redis_url: str) -> None:
    with ReportWriter(redis_url, "clicks") as writer:
        writer.write(a_report())
        writer.forget()

    assert await client.keys("*") == []


async def test_silent_workers_are_taken_off_the_index(client: Redis, redis_url: str, keys: Keys) -> None:
    with ReportWriter(redis_url, "clicks") as writer:
        writer.write(a_report())
    await client.delete(keys.report("clicks", "w-1"))

    await RedisReports(client, keys, "clicks").reports()

    assert not await client.exists(keys.workers("clicks"))


async def test_a_report_that_cannot_be_read_does_not_hide_the_others(
    client: Redis, redis_url: str, keys: Keys
) -> None:
    with ReportWriter(redis_url, "clicks") as writer:
        writer.write(a_report("w-1"))
    for name, raw in (("w-2", b"gibberish"), ("w-3", b'{"v":99,"report":{}}')):
        await client.set(keys.report("clicks", name), raw)
        await client.sadd(keys.workers("clicks"), name)
    await client.sadd(keys.workers("clicks"), b"\xff")

    assert await RedisReports(client, keys, "clicks").reports() == (a_report("w-1"),)


async def test_a_redis_that_is_away_is_told_to_controller_and_worker_alike(
    own_server: EmbeddedRedis, own_client: Redis, keys: Keys
) -> None:
    telemetry = RedisReports(own_client, keys, "clicks")
    with (
        ReportWriter(own_server.url, "clicks") as writer,
        AssignmentReader(own_server.url, "clicks") as reader,
    ):
        writer.write(a_report())
        kill(own_server)

        with pytest.raises(StateUnavailable):
            await telemetry.reports()
        with pytest.raises(StateUnavailable):
            writer.write(a_report())
        with pytest.raises(StateUnavailable):
            writer.forget()
        with pytest.raises(StateUnavailable):
            reader.partitions_of("w-1")

        own_server.restart()
        writer.write(a_report())
        assert await telemetry.reports() == (a_report(),)
        assert reader.partitions_of("w-1") == ()


def test_a_worker_that_never_wrote_has_nothing_to_forget(redis_url: str) -> None:
    with ReportWriter(redis_url, "clicks") as writer:
        writer.forget()


async def test_a_worker_reads_its_partitions_as_they_change(
    client: Redis, redis_url: str, keys: Keys
) -> None:
    store = RedisState(client, keys)
    with AssignmentReader(redis_url, "clicks") as reader:
        assert reader.partitions_of("w-1") == ()
        await store.commit(a_decision(1, owner="w-1"), fence=1)
        assert (reader.partitions_of("w-1"), reader.partitions_of("w-2")) == ((0, 1), (1,))
        await store.commit(a_decision(2, owner="w-5"), fence=1)
        assert reader.partitions_of("w-1") == ()
        await client.flushdb()
        assert reader.partitions_of("w-5") == ()


async def test_who_stands_by_trains_once_nobody_has_led_for_a_minute_and_until_somebody_does(
    client: Redis, redis_url: str, keys: Keys
) -> None:
    await client.set(keys.assignment("clicks"), codec.encode_assignment(Assignment(active=("w-1",))))
    clock = VirtualClock()

    def stands_by_after(seconds: float) -> bool:
        clock.advance(seconds)
        return reader.stands_by("w-2")

    with AssignmentReader(redis_url, "clicks", now_s=clock.now_s) as reader:
        await client.set(keys.leader(), b"somebody")
        assert stands_by_after(3600.0)
        await client.delete(keys.leader())
        assert stands_by_after(59.0), "controllers take turns: a gap is nothing"
        assert not stands_by_after(2.0)
        await client.set(keys.leader(), b"somebody")
        assert stands_by_after(1.0)
        assert not reader.stands_by("w-1")


async def test_an_assignment_that_cannot_be_read_is_told_every_time(
    client: Redis, redis_url: str, keys: Keys
) -> None:
    await client.set(keys.assignment("clicks"), b'{"v":99,"assignment":{}}')
    with AssignmentReader(redis_url, "clicks") as reader:
        for _ in range(2):
            with pytest.raises(StateCorrupt, match="upgrade"):
                reader.partitions_of("w-1")
