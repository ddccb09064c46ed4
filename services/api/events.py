"""`GET /v1/events`: what happens, as server-sent events that can be taken up again on any controller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter, ValidationError

from services.api.dependencies import Viewer
from services.api.event_feed import EventFeed, Stalled, Watcher
from services.api.principal import Doorkeeper, Principal
from services.api.problems import ApiProblem, Kind
from services.api.site import TheSite
from services.control.errors import StateUnavailable
from services.settings.job import JOB_ID
from services.store.streams import Entry, StreamId

log = structlog.get_logger(__name__)

router = APIRouter(prefix="/v1", tags=["events"])

Shows = Callable[[Entry], bool]
Welcome = Callable[[], Awaitable[bool]]

KINDS = ("tick", "decision", "trouble", "job")
HEARTBEAT_S = 10.0
"""A comment is sent, and the token looked at again, after this long without an event."""

_DATA = TypeAdapter(dict[str, Any])

_EXAMPLE = (
    "id: 1700000000000-0\nevent: decision\n"
    'data: {"job": "clicks", "id": "clicks-41", "planned": 6, "requested": 4, "reason": "forecast_rise"}\n\n'
)


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {"example": _EXAMPLE}}, "description": "Events, for ever."}
    },
)
async def read_events(
    *,
    who: Viewer,
    site: TheSite,
    request: Request,
    job: Annotated[str | None, Query(pattern=JOB_ID, description="Only events of this job.")] = None,
    kinds: Annotated[
        str | None,
        Query(max_length=100, description=f"Only these kinds, with commas between: {', '.join(KINDS)}."),
    ] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=64, description="Go on after this event.", examples=["1700000000000-0"])
    ] = None,
) -> StreamingResponse:
    """Ticks, decisions, trouble and changes of jobs, as they happen.

    Ids are those of a Redis stream: `Last-Event-ID` goes on where another connection ended, on any
    controller. When events between are not kept any more, the first one is `reset`: read all again.
    While the log cannot be read, `stalled` says why, so that silence is not taken for calm; one without a
    reason ends it.
    """
    wanted = _kinds(kinds)
    try:
        last = StreamId.parse(last_event_id) if last_event_id else None
    except ValueError as error:
        raise ApiProblem(Kind.INVALID, f"Last-Event-ID: {error}") from error
    start, lost = await site.events.place_of(last)

    def shows(entry: Entry) -> bool:
        about = entry.fields.get("job", b"").decode(errors="replace")
        kind = entry.fields.get("kind", b"").decode(errors="replace")
        return kind in wanted and who.good_for(about) and (job is None or about == job)

    doorkeeper: Doorkeeper = request.app.state.doorkeeper
    stream = _stream(site.events, start, lost, shows, lambda: _still_welcome(doorkeeper, request, who))
    return StreamingResponse(
        stream,
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no", "Cache-Control": "no-store"},
    )


def _kinds(given: str | None) -> frozenset[str]:
    chosen = frozenset(given.split(",")) if given else frozenset(KINDS)
    if not chosen <= set(KINDS):
        raise ApiProblem(Kind.INVALID, f"kinds: must be some of {', '.join(KINDS)}")
    return chosen


async def _still_welcome(doorkeeper: Doorkeeper, request: Request, who: Principal) -> bool:
    """Whether the token still opens; an outage of the store is no reason to hang up."""
    try:
        now = await doorkeeper.admit(request.headers, changes=False)
    except ApiProblem:
        return False
    except StateUnavailable:
        return True
    return (now.key, now.role, now.jobs) == (who.key, who.role, who.jobs)


async def _stream(
    feed: EventFeed, start: StreamId, lost: bool, shows: Shows, welcome: Welcome
) -> AsyncIterator[bytes]:
    # The place is told at once: who loses the connection before the first event misses none either.
    yield f"retry: 2000\nid: {start}\n\n".encode()
    async with feed.watching(start) as watcher:
        if lost:
            yield _reset(start, "events since the one named are not kept any more")
        try:
            async for part in _events(watcher, shows, welcome):
                yield part
        except StateUnavailable as error:
            log.warning("events_ended", why=str(error))
        except asyncio.CancelledError:
            log.debug("events_left")
            raise


async def _events(watcher: Watcher, shows: Shows, welcome: Welcome) -> AsyncIterator[bytes]:
    while found := await watcher.catch_up():
        for missed in found:
            if shows(missed):
                yield _written(missed)
    looked_s = asyncio.get_running_loop().time()
    while True:
        entry = await watcher.next(within_s=HEARTBEAT_S)
        if watcher.closed:
            return
        if watcher.overflowed:
            yield _reset(watcher.last, "events came faster than they were read")
            return
        if entry is None:
            yield b": still here\n\n"
        elif isinstance(entry, Stalled):
            yield f"event: stalled\ndata: {json.dumps({'why': entry.why})}\n\n".encode()
        elif shows(entry):
            yield _written(entry)
        now_s = asyncio.get_running_loop().time()
        if now_s - looked_s >= HEARTBEAT_S:
            looked_s = now_s
            if not await welcome():
                return


def _written(entry: Entry) -> bytes:
    """Nothing for one that cannot be read: whoever took up the stream again would break there again."""
    kind, job = entry.fields.get("kind", b"").decode(), entry.fields.get("job", b"").decode(errors="replace")
    try:
        text = json.dumps({"job": job, **_DATA.validate_json(entry.fields.get("data", b"{}"))})
    except ValidationError as error:
        log.warning(
            "event_unreadable", entry=str(entry.id), why=str(error.errors(include_input=False)[0]["msg"])
        )
        return b""
    return f"id: {entry.id}\nevent: {kind}\ndata: {text}\n\n".encode()


def _reset(at: StreamId, why: str) -> bytes:
    return f"id: {at}\nevent: reset\ndata: {json.dumps({'why': why})}\n\n".encode()
