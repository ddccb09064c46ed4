"""Many topics, one poller: the meters of a fleet share the calls to Kafka.

Jobs tick on one grid, so their readings are wanted at the same moment. The topics
wanted together are asked for together, in calls of some 500 partitions whatever
topics they belong to, over one connection; metadata are refreshed, not fetched each time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from services.clock import elapsed_s
from services.control.errors import TrafficUnavailable
from services.meter.dating import Ask
from services.meter.group_commits import GroupCommits
from services.meter.kafka_offsets import KafkaOffsets
from services.meter.poll import OffsetPoll

Result = TypeVar("Result")
Polled = Mapping[str, OffsetPoll | TrafficUnavailable]

GATHER_S = 0.02
"""A poll waits this long for others to join it: ticks of one grid do not come at the very same instant."""


@dataclass(slots=True)
class _Batch:
    """Topics to be polled together, and the answer that all who asked wait for."""

    topics: set[str] = field(default_factory=set)
    answer: asyncio.Future[Polled] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class FleetOffsets:
    """Polls for any number of meters. Give each meter of the fleet a `source` from here."""

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        timeout_s: float = 5.0,
        layout_every_s: float = 10.0,
        elapsed_s: Callable[[], float] = elapsed_s,
        offsets: KafkaOffsets | None = None,
    ) -> None:
        self._client, self._timeout_s = client, timeout_s
        self._offsets = offsets or KafkaOffsets(
            client, timeout_s=timeout_s, layout_every_s=layout_every_s, elapsed_s=elapsed_s
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fleet-meter")
        self._groups = ThreadPoolExecutor(4, thread_name_prefix="fleet-groups")
        self._gathering: _Batch | None = None
        self._polling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let a poll under way end, then let go of the cluster."""
        if self._polling is not None:
            await asyncio.gather(self._polling, return_exceptions=True)
        await self.run(self._offsets.close)
        self._thread.shutdown(wait=False)
        self._groups.shutdown(wait=False)

    async def topics(self, pattern: str) -> tuple[str, ...]:
        """The topics whose whole name matches this regular expression, Kafka's own left out.

        Raises TrafficUnavailable; `re.error` for a pattern that is none.
        """
        matches = re.compile(pattern).fullmatch
        names = await self.run(self._offsets.layouts.names)
        return tuple(name for name in names if matches(name))

    def source(self, topic: str, *, group: str) -> FleetSource:
        """The place of one meter in the shared polls."""
        return FleetSource(
            self, topic, partial(GroupCommits, self._client, group=group, timeout_s=self._timeout_s)
        )

    async def poll(self, topic: str) -> OffsetPoll:
        """The offsets of one topic, asked for after this call, together with those of the others."""
        if self._gathering is None:
            self._gathering = _Batch()
        batch = self._gathering
        batch.topics.add(topic)
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll_batches())
        # One reader that is cancelled must not cancel what the others wait for.
        polled = (await asyncio.shield(batch.answer))[topic]
        if isinstance(polled, TrafficUnavailable):
            raise polled
        return polled

    async def partitions(self, topic: str) -> int:
        """How many partitions the topic has. Raises TrafficUnavailable."""
        return await self.run(partial(self._offsets.partitions, topic))

    async def with_times(self, topic: str, question: Callable[[Ask], Result]) -> Result:
        """The answer to a question that looks up offsets by time."""
        return await self.run(partial(question, partial(self._offsets.at_times, topic)))

    async def run(self, call: Callable[[], Result]) -> Result:
        """Call in the poller's thread, one after another."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def run_for_group(self, call: Callable[[], Result]) -> Result:
        """Call beside the poller: the coordinator of one group must not hold up all the others."""
        return await asyncio.get_running_loop().run_in_executor(self._groups, call)

    async def _poll_batches(self) -> None:
        while self._gathering is not None:
            await asyncio.sleep(GATHER_S)
            batch, self._gathering = self._gathering, None
            asked = asyncio.ensure_future(self.run(partial(self._offsets.poll, batch.topics)))
            await asyncio.wait([asked])
            error = asked.exception()
            if error is None:
                batch.answer.set_result(asked.result())
            elif isinstance(error, TrafficUnavailable):
                batch.answer.set_result(dict.fromkeys(batch.topics, error))
            else:  # a mistake: told to who waits, each of whose jobs would else wait for ever
                batch.answer.set_exception(error)


class FleetSource:
    """A `MeterSource` that shares its polls with the rest of the fleet."""

    def __init__(self, fleet: FleetOffsets, topic: str, new_commits: Callable[[], GroupCommits]) -> None:
        self._fleet = fleet
        self._topic = topic
        self._new_commits = new_commits
        self._commits: GroupCommits | None = None

    async def poll(self) -> OffsetPoll:
        return await self._fleet.poll(self._topic)

    async def commits(self) -> Mapping[int, int]:
        partitions = await self._fleet.partitions(self._topic)
        if self._commits is None:  # a client costs threads: none where the ledger tells the progress
            self._commits = self._new_commits()
        return await self._fleet.run_for_group(partial(self._commits.read, self._topic, partitions))

    async def with_times(self, question: Callable[[Ask], Result]) -> Result:
        return await self._fleet.with_times(self._topic, question)

    async def close(self) -> None:
        """Leaves the fleet's own connection open."""
        if self._commits is not None:
            await self._fleet.run_for_group(self._commits.close)
