"""One reader of the event log for all who watch on this controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from services.control.errors import StateUnavailable
from services.store.streams import Entry, StreamId, StreamLog

log = structlog.get_logger(__name__)

QUEUE_MAX = 2000
"""Events that may wait for one slow watcher; beyond that it is told to start afresh."""
_CATCH_UP = 500
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Stalled:
    """The log cannot be read: silence is no sign that nothing happens. Without a reason it is over."""

    why: str


class Watcher:
    """One who watches: events from a place on, without gaps, or a word that there is one."""

    def __init__(self, log: StreamLog, start: StreamId) -> None:
        self._log = log
        self._queue: asyncio.Queue[Entry | Stalled | None] = asyncio.Queue(QUEUE_MAX)
        self.last = start
        self.overflowed = False
        self.closed = False
        """The server stops: nothing will come any more."""

    def told(self, entry: Entry | Stalled) -> None:
        """Take in one event, or that none can be read for now."""
        try:
            self._queue.put_nowait(entry)
        except asyncio.QueueFull:
            self.overflowed = True

    def close(self) -> None:
        """Wake who waits: nothing will come any more."""
        self.closed = True
        if not self._queue.full():
            self._queue.put_nowait(None)

    async def catch_up(self) -> list[Entry]:
        """What the log has after the last event seen, in parts; empty when there is no more."""
        found = await self._log.after(self.last, limit=_CATCH_UP)
        if found:
            self.last = found[-1].id
        return found

    async def next(self, *, within_s: float) -> Entry | Stalled | None:
        """The next event that was not seen yet, or why none comes; None when there was neither in time."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    entry = await self._queue.get()
                    if entry is None or isinstance(entry, Stalled):
                        return entry
                    if entry.id > self.last:
                        self.last = entry.id
                        return entry
        except TimeoutError:
            return None


class EventFeed:
    """Reads the log while somebody watches, and hands each event to all of them."""

    def __init__(self, log: StreamLog) -> None:
        self.log = log
        self._watchers: set[Watcher] = set()
        self._reader: asyncio.Task[None] | None = None
        self._placed = asyncio.Event()

    @property
    def watchers(self) -> int:
        """How many watch."""
        return len(self._watchers)

    async def place_of(self, last: StreamId | None) -> tuple[StreamId, bool]:
        """Where to go on after `last`, and whether events between are lost. Raises StateUnavailable.

        Without `last` one starts now. An id older than the oldest event kept may have had successors
        that are gone; one younger than the newest comes from a log that was lost.
        """
        span = await self.log.span()
        if last is None:
            return span.last, False
        lost = last < span.first or last > span.last
        return (span.last, True) if lost and last != span.last else (last, False)

    @asynccontextmanager
    async def watching(self, start: StreamId) -> AsyncIterator[Watcher]:
        """Watch from `start` on; catch up first, what comes meanwhile waits."""
        watcher = Watcher(self.log, start)
        self._watchers.add(watcher)
        if self._reader is None or self._reader.done():
            self._placed.clear()
            self._reader = asyncio.create_task(self._read(), name="events")
        try:
            # Not before the reader has its place: an event between two first looks would be missed.
            await self._placed.wait()
            yield watcher
        finally:
            self._watchers.discard(watcher)

    async def _read(self) -> None:
        """Until nobody watches any more."""
        last: StreamId | None = None
        stalled = False
        while self._watchers:
            try:
                if last is None:
                    last = (await self.log.span()).last
                    self._placed.set()
                found = await self.log.wait(last, limit=500)
            except StateUnavailable as error:
                if not stalled:
                    log.warning("events_not_read", why=str(error))
                    self._tell(Stalled(str(error)))
                stalled = True
                await asyncio.sleep(_RETRY_S)
                continue
            if stalled:
                log.info("events_read_again")
                self._tell(Stalled(""))
                stalled = False
            for entry in found:
                last = entry.id
                self._tell(entry)

    def _tell(self, entry: Entry | Stalled) -> None:
        for watcher in tuple(self._watchers):
            watcher.told(entry)

    async def close(self) -> None:
        """Let everybody go, and stop reading. Whoever watches afterwards starts it again."""
        for watcher in tuple(self._watchers):
            watcher.close()
        self._watchers.clear()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
