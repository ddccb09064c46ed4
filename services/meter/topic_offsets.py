"""One topic and one group of a Kafka cluster, as the meter asks after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from services.clock import elapsed_s
from services.control.errors import TrafficUnavailable
from services.meter.group_commits import GroupCommits
from services.meter.kafka_offsets import KafkaOffsets
from services.meter.poll import OffsetPoll


class TopicOffsets:
    """An `OffsetSource` over Kafka. Blocking; one thread at a time."""

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        topic: str,
        group: str,
        timeout_s: float = 5.0,
        layout_every_s: float = 10.0,
        starts_every_s: float = 10.0,
        elapsed_s: Callable[[], float] = elapsed_s,
    ) -> None:
        self._topic = topic
        self._offsets = KafkaOffsets(
            client,
            timeout_s=timeout_s,
            layout_every_s=layout_every_s,
            starts_every_s=starts_every_s,
            elapsed_s=elapsed_s,
        )
        self._new_commits = partial(GroupCommits, client, group=group, timeout_s=timeout_s)
        self._commits: GroupCommits | None = None

    def poll(self) -> OffsetPoll:
        polled = self._offsets.poll([self._topic])[self._topic]
        if isinstance(polled, TrafficUnavailable):
            raise polled
        return polled

    def commits(self) -> Mapping[int, int]:
        if self._commits is None:  # a client costs threads: none where the ledger tells the progress
            self._commits = self._new_commits()
        return self._commits.read(self._topic, self._offsets.partitions(self._topic))

    def at_times(self, wanted: Sequence[tuple[int, float]]) -> Sequence[int]:
        return self._offsets.at_times(self._topic, wanted)

    def close(self) -> None:
        self._offsets.close()
        if self._commits is not None:
            self._commits.close()
