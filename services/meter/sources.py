"""Where a meter gets its polls from: a topic of its own, or a place in the fleet's shared polls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from services.meter.dating import Ask
from services.meter.poll import OffsetPoll, OffsetSource

Result = TypeVar("Result")


class MeterSource(Protocol):
    """What a meter awaits. A poll never overlaps the next."""

    async def poll(self) -> OffsetPoll:
        """The offsets, asked for after this call. Raises TrafficUnavailable."""
        ...

    async def commits(self) -> Mapping[int, int]:
        """What the group has committed. Raises TrafficUnavailable."""
        ...

    async def with_times(self, question: Callable[[Ask], Result]) -> Result:
        """The answer to a question that needs to look up offsets by time, which blocks."""
        ...

    async def close(self) -> None: ...


class ThreadedSource:
    """A blocking source in a thread of its own.

    The thread is what keeps polls apart: a read that is given up leaves its poll
    running, and the next one waits for its turn behind it.
    """

    def __init__(self, source: OffsetSource, *, name: str) -> None:
        self._source = source
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"meter-{name}")

    async def poll(self) -> OffsetPoll:
        return await self._run(self._source.poll)

    async def commits(self) -> Mapping[int, int]:
        return await self._run(self._source.commits)

    async def with_times(self, question: Callable[[Ask], Result]) -> Result:
        return await self._run(partial(question, self._source.at_times))

    async def close(self) -> None:
        """Let a poll under way end, then let go of the cluster."""
        await self._run(self._source.close)
        self._thread.shutdown(wait=False)

    async def _run(self, call: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)
