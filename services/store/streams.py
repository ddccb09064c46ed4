"""Append-only logs with ids that only ever grow: Redis Streams, and the same in memory.

An id is `MILLISECONDS-SEQUENCE`. The oldest entries go when a log is full.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from redis.asyncio import Redis

from services.store.connect import asking

AUDIT_KEPT = 10_000
EVENTS_KEPT = 20_000

_BLOCK_S = 1.0
"""How long one question for new entries waits at the server; below every sensible timeout."""

Fields = Mapping[str, str | bytes]


@dataclass(frozen=True, slots=True, order=True)
class StreamId:
    """The place of an entry.

    >>> StreamId.parse("1700000000000-3") < StreamId.parse("1700000000000-12")
    True
    """

    ms: int
    sequence: int

    @classmethod
    def parse(cls, text: str) -> StreamId:
        """Raises ValueError for anything but `MILLISECONDS-SEQUENCE`."""
        found = re.fullmatch(r"([0-9]{1,19})-([0-9]{1,19})", text, flags=re.ASCII)
        if found is None or max(int(found[1]), int(found[2])) >= 2**63:
            raise ValueError("an event id is MILLISECONDS-SEQUENCE, as in 1700000000000-0")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.ms}-{self.sequence}"


START = StreamId(0, 0)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a log."""

    id: StreamId
    fields: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Span:
    """The oldest and the newest entry there is; both START when there is none."""

    first: StreamId
    last: StreamId


class StreamLog(Protocol):
    """A bounded log of entries."""

    async def append(self, fields: Fields) -> StreamId:
        """Add an entry. Raises StateUnavailable."""
        ...

    async def span(self) -> Span:
        """What there is. Raises StateUnavailable."""
        ...

    async def after(self, last: StreamId, *, limit: int) -> list[Entry]:
        """Entries younger than `last`, oldest first. Raises StateUnavailable."""
        ...

    async def before(self, last: StreamId | None, *, limit: int) -> list[Entry]:
        """Entries older than `last` (any, when None), newest first. Raises StateUnavailable."""
        ...

    async def wait(self, last: StreamId, *, limit: int) -> list[Entry]:
        """As `after`, waiting a second or so when there is none."""
        ...


class RedisStream:
    """A StreamLog under one key."""

    def __init__(self, client: Redis, key: str, *, kept: int) -> None:
        self._client = client
        self._key = key
        self._kept = kept

    async def append(self, fields: Fields) -> StreamId:
        async with asking(self._client, f"XADD {self._key}"):
            added = await self._client.xadd(
                self._key,
                dict(fields),  # type: ignore[arg-type]  # the client's type is invariant
                maxlen=self._kept,
                approximate=True,
            )
        return StreamId.parse(_text(added))

    async def span(self) -> Span:
        async with asking(self._client, f"XRANGE {self._key}"):
            first = _entries(await self._client.xrange(self._key, count=1))
            last = _entries(await self._client.xrevrange(self._key, count=1))
        return Span(first[0].id, last[0].id) if first and last else Span(START, START)

    async def after(self, last: StreamId, *, limit: int) -> list[Entry]:
        async with asking(self._client, f"XRANGE {self._key}"):
            return _entries(await self._client.xrange(self._key, min=f"({last}", count=limit))

    async def before(self, last: StreamId | None, *, limit: int) -> list[Entry]:
        newest = "+" if last is None else f"({last}"
        async with asking(self._client, f"XREVRANGE {self._key}"):
            return _entries(await self._client.xrevrange(self._key, max=newest, count=limit))

    async def wait(self, last: StreamId, *, limit: int) -> list[Entry]:
        async with asking(self._client, f"XREAD {self._key}"):
            # The client's types allow for the replies of another protocol too.
            read = cast(
                list[tuple[bytes, object]],
                await self._client.xread({self._key: str(last)}, count=limit, block=round(_BLOCK_S * 1000)),
            )
        return _entries(read[0][1]) if read else []


@dataclass(slots=True)
class MemoryStream:
    """A StreamLog within one process."""

    kept: int
    _entries: deque[Entry] = field(default_factory=deque)
    _last: StreamId = START
    _grown: asyncio.Event = field(default_factory=asyncio.Event)

    async def append(self, fields: Fields) -> StreamId:
        now_ms = time.time_ns() // 1_000_000
        last = self._last
        self._last = StreamId(now_ms, 0) if now_ms > last.ms else StreamId(last.ms, last.sequence + 1)
        written = {
            name: value.encode() if isinstance(value, str) else value for name, value in fields.items()
        }
        self._entries.append(Entry(self._last, written))
        while len(self._entries) > self.kept:
            self._entries.popleft()
        self._grown.set()
        self._grown = asyncio.Event()
        return self._last

    async def span(self) -> Span:
        return Span(self._entries[0].id, self._entries[-1].id) if self._entries else Span(START, START)

    async def after(self, last: StreamId, *, limit: int) -> list[Entry]:
        return [entry for entry in self._entries if entry.id > last][:limit]

    async def before(self, last: StreamId | None, *, limit: int) -> list[Entry]:
        older = [entry for entry in self._entries if last is None or entry.id < last]
        return list(reversed(older))[:limit]

    async def wait(self, last: StreamId, *, limit: int) -> list[Entry]:
        if self._last <= last:
            try:
                async with asyncio.timeout(_BLOCK_S):
                    await self._grown.wait()
            except TimeoutError:
                return []
        return await self.after(last, limit=limit)


def _entries(reply: object) -> list[Entry]:
    rows = cast(list[tuple[bytes, dict[bytes, bytes] | None]], reply)
    return [
        Entry(StreamId.parse(_text(at)), {name.decode(): value for name, value in (fields or {}).items()})
        for at, fields in rows
    ]


def _text(reply: object) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)
