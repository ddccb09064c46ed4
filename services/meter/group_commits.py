"""Asks Kafka how far a consumer group has committed, without joining it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from services.control.errors import TrafficUnavailable
from services.meter.kafka_offsets import CHUNK, QUIET

PAUSE_S = 0.2
_MOVING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)

SHORT_PATIENCE_S = 1.0
"""How long a coordinator that did not answer last time is waited for."""


class GroupCommits:
    """The commits of one group. Blocking; one thread at a time.

    A consumer that never subscribes is asked, because
    `AdminClient.list_consumer_group_offsets` aborts the whole process when the
    group's coordinator goes away (librdkafka issues 3663, 4605, 5040; seen with 2.16).
    """

    def __init__(self, client: Mapping[str, Any], *, group: str, timeout_s: float = 5.0) -> None:
        self._group = group
        self._cluster = str(client.get("bootstrap.servers", "?"))
        self._timeout_s = self._patience_s = timeout_s
        self._reader = Consumer({**QUIET, **client, "group.id": group, "enable.auto.commit": False})

    def read(self, topic: str, partitions: int) -> Mapping[int, int]:
        """What is committed, by partition; those without a commit (-1) are left out.

        Raises TrafficUnavailable when the coordinator does not answer.
        """
        found: dict[int, int] = {}
        for first in range(0, partitions, CHUNK):
            wanted = range(first, min(first + CHUNK, partitions))
            found |= self._read([TopicPartition(topic, partition) for partition in wanted])
        return found

    def _read(self, wanted: list[TopicPartition]) -> dict[int, int]:
        deadline_s = time.monotonic() + self._patience_s
        while True:
            try:
                answers = self._reader.committed(wanted, timeout=max(0.1, deadline_s - time.monotonic()))
            except KafkaException as error:
                # A coordinator that has just moved says so, and is somewhere else a moment later.
                if error.args[0].code() in _MOVING and time.monotonic() + PAUSE_S < deadline_s:
                    time.sleep(PAUSE_S)
                    continue
                self._patience_s = min(SHORT_PATIENCE_S, self._timeout_s)
                raise self._unreadable(error) from error
            self._patience_s = self._timeout_s
            refused = next((answer.error for answer in answers if answer.error is not None), None)
            if refused is not None:  # its offset says "no commit" then, and all that is kept would be lag
                raise self._unreadable(KafkaException(refused))
            return {answer.partition: answer.offset for answer in answers if answer.offset >= 0}

    def _unreadable(self, error: KafkaException) -> TrafficUnavailable:
        why = error.args[0].str()
        return TrafficUnavailable(
            f"the commits of group {self._group!r} cannot be read from {self._cluster}: {why}"
        )

    def close(self) -> None:
        """Let go of the cluster."""
        self._reader.close()
