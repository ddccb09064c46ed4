"""Events can be taken up again on any controller; what was lost is said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from redis.asyncio import Redis
from structlog.testing import capture_logs

from services.access.role import Role
from services.api import events as events_module
from services.api.event_feed import EventFeed
from services.settings.root import RedisSettings
from services.store.connect import connect
from services.store.streams import Entry, MemoryStream, RedisStream, StreamId, StreamLog
from tests.api.sites import FragileStream, Rig
from tests.waiting import eventually_async


@asynccontextmanager
async def serving(rig: Rig) -> AsyncIterator[str]:
    """The rig on a real socket: streams need a connection that can be cut."""
    config = uvicorn.Config(rig.app, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    await eventually_async(lambda: server.started, what="the server")
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await rig.site.events.close()
        await task


async def listen(
    url: str, token: str, *, count: int, query: str = "", last: str | None = None, rig: Rig | None = None
) -> list[dict[str, Any]]:
    """The first `count` events of a connection; `rig` then tells one more tick once it is open."""
    headers = {"Authorization": f"Bearer {token}"} | ({"Last-Event-ID": last} if last else {})
    found: list[dict[str, Any]] = []
    async with (
        httpx2.AsyncClient(timeout=30) as client,
        client.stream("GET", f"{url}/v1/events{query}", headers=headers) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        event: dict[str, Any] = {}
        async for line in answer.aiter_lines():
            if line.startswith("retry") and rig is not None:
                await eventually_async(lambda: rig.site.events.watchers > 0, what="a watcher")
                await rig.tell(rig.controller.tick())
            name, _, value = line.partition(": ")
            if name:
                event[name] = value
            elif "data" in event:
                found.append({**event, "data": json.loads(event["data"])})
                event = {}
                if len(found) >= count:
                    return found
            else:
                event = {}
    return found


async def test_ticks_and_decisions_arrive_as_they_happen(rig: Rig) -> None:
    token = await rig.token(Role.VIEWER)
    async with serving(rig) as url:
        heard = await listen(url, token, count=2, rig=rig)

    assert [event["event"] for event in heard] == ["tick", "decision"]
    assert heard[1]["data"]["job"] == "clicks"
    assert heard[1]["data"]["reason"] == "forecast_rise"


async def test_a_lost_connection_goes_on_where_it_ended_on_another_controller(rig: Rig) -> None:
    token = await rig.token(Role.VIEWER)
    for _ in range(3):
        await rig.tell(rig.controller.tick())
    first = (await rig.jobs.events.span()).first
    other = await Rig(jobs=rig.jobs).opened()
    other.tokens._tokens.update(rig.tokens._tokens)

    async with serving(rig) as url:
        heard = await listen(url, token, count=2, last=str(first))
    async with serving(other) as url:
        rest = await listen(url, token, count=3, last=heard[-1]["id"])

    ids = [StreamId.parse(event["id"]) for event in (*heard, *rest)]
    every = [entry.id for entry in await rig.jobs.events.after(first, limit=100)]
    assert ids == every[: len(ids)]


async def test_an_event_that_cannot_be_read_does_not_hide_those_after_it(rig: Rig) -> None:
    token, start = await rig.token(), (await rig.jobs.events.span()).last
    for data in ('{"half', "[1]", b"\xff"):
        await rig.jobs.events.append({"kind": "tick", "job": "clicks", "data": data})
    await rig.jobs.events.append({"kind": b"\xff", "job": b"\xff", "data": "{}"})
    await rig.tell(rig.controller.tick())

    async with serving(rig) as url:
        with capture_logs() as logged:
            found = await listen(url, token, count=1, query="?kinds=tick", last=str(start))

    assert found[0]["event"] == "tick"
    assert [entry["event"] for entry in logged].count("event_unreadable") == 3


async def test_an_id_that_is_not_kept_any_more_gets_a_reset(rig: Rig) -> None:
    token = await rig.token(Role.VIEWER)
    await rig.tell(rig.controller.tick())

    async with serving(rig) as url:
        old = await listen(url, token, count=1, last="1-0")
        unknown = await listen(url, token, count=1, last="9999999999999-0")

    assert [event["event"] for event in (*old, *unknown)] == ["reset", "reset"]
    assert old[0]["id"] == str((await rig.jobs.events.span()).last)


async def test_events_of_other_jobs_and_kinds_are_left_out(rig: Rig) -> None:
    token = await rig.token(Role.VIEWER, jobs=("views",))
    first = (await rig.jobs.events.span()).first
    await rig.tell(rig.controller.tick())
    await rig.jobs.events.append({"kind": "trouble", "job": "views", "data": '{"trouble": "no broker"}'})

    async with serving(rig) as url:
        heard = await listen(url, token, count=1, query="?kinds=tick,trouble", last=str(first))

    assert heard[0]["data"] == {"job": "views", "trouble": "no broker"}


async def test_a_revoked_token_is_hung_up_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "HEARTBEAT_S", 0.05)
    token = await rig.token(Role.VIEWER)

    async with serving(rig) as url:
        listening = asyncio.create_task(listen(url, token, count=99))
        await eventually_async(lambda: rig.site.events.watchers > 0, what="a watcher")
        await rig.tokens.revoke((await rig.tokens.every())[0].id, audit=b"{}")

        assert await asyncio.wait_for(listening, 20) == []


async def test_a_log_that_cannot_be_read_is_said_once_and_so_is_its_return(rig: Rig) -> None:
    token = await rig.token(Role.VIEWER)
    log = rig.jobs.events
    assert isinstance(log, FragileStream)

    async with serving(rig) as url:
        listening = asyncio.create_task(listen(url, token, count=3, query="?kinds=tick"))
        await eventually_async(lambda: rig.site.events.watchers > 0, what="a watcher")
        with capture_logs() as said:
            log.away = "Redis at nowhere: XREAD failed"
            await eventually_async(lambda: log.refused >= 3, what="several tries")
            log.away = ""
            await eventually_async(lambda: len(said) >= 2, what="its return")
        await rig.tell(rig.controller.tick())
        heard = await asyncio.wait_for(listening, 20)

    assert [event["event"] for event in heard] == ["stalled", "stalled", "tick"]
    assert [event["data"]["why"] for event in heard[:2]] == ["Redis at nowhere: XREAD failed", ""]
    assert [entry["event"] for entry in said] == ["events_not_read", "events_read_again"]


async def test_a_senseless_id_or_kind_is_refused(rig: Rig) -> None:
    client = rig.client(await rig.token())

    assert client.get("/v1/events", headers={"Last-Event-ID": "yesterday"}).status_code == 422
    assert client.get("/v1/events?kinds=gossip").status_code == 422


@pytest.fixture(params=["memory", "redis"])
async def stream(request: pytest.FixtureRequest) -> AsyncIterator[StreamLog]:
    if request.param == "memory":
        yield MemoryStream(kept=50)
        return
    async with connect(RedisSettings(url=request.getfixturevalue("redis_url"))) as client:
        yield RedisStream(client, "log", kept=50)


async def test_a_log_gives_what_comes_after_and_before_in_order(stream: StreamLog) -> None:
    ids = [await stream.append({"n": str(n)}) for n in range(5)]

    assert ids == sorted(ids)
    assert [e.fields["n"] for e in await stream.after(ids[1], limit=2)] == [b"2", b"3"]
    assert [e.fields["n"] for e in await stream.before(ids[3], limit=2)] == [b"2", b"1"]
    assert [e.fields["n"] for e in await stream.before(None, limit=1)] == [b"4"]
    assert (await stream.span()).last == ids[-1]
    assert await stream.wait(ids[2], limit=9) == await stream.after(ids[2], limit=9)


async def test_an_empty_log_waits_and_then_says_nothing(stream: StreamLog) -> None:
    assert (await stream.span()).last == StreamId(0, 0)
    assert await stream.wait(StreamId(0, 0), limit=1) == []


async def test_who_waits_hears_what_is_appended(stream: StreamLog) -> None:
    first = await stream.append({"n": "0"})

    async def hear() -> list[bytes]:
        heard: list[bytes] = []
        while not heard:
            heard = [entry.fields["n"] for entry in await stream.wait(first, limit=5)]
        return heard

    hearing = asyncio.create_task(hear())
    await asyncio.sleep(0)
    await stream.append({"n": "1"})

    assert await asyncio.wait_for(hearing, 20) == [b"1"]


async def test_no_event_is_lost_between_catching_up_and_waiting(redis_url: str) -> None:
    """Events come all the time while watchers join: each hears every one from its place on."""
    async with connect(RedisSettings(url=redis_url)) as client:
        log = RedisStream(client, "log", kept=10_000)
        feed = EventFeed(log)
        start = await log.append({"n": "-1"})
        telling = asyncio.create_task(_tell(client, 300))
        try:
            heard = await asyncio.gather(*(_hear(feed, start, 300) for _ in range(5)))
        finally:
            await telling
            await feed.close()

    assert all(numbers == list(range(300)) for numbers in heard)


async def _tell(client: Redis, many: int) -> None:
    log = RedisStream(client, "log", kept=10_000)
    for n in range(many):
        await log.append({"n": str(n)})


async def _hear(feed: EventFeed, start: StreamId, many: int) -> list[int]:
    numbers: list[int] = []
    async with feed.watching(start) as watcher:
        while found := await watcher.catch_up():
            numbers += [int(entry.fields["n"]) for entry in found]
        while len(numbers) < many:
            entry = await watcher.next(within_s=20.0)
            assert isinstance(entry, Entry), f"silence after {len(numbers)}"
            numbers.append(int(entry.fields["n"]))
    return numbers
