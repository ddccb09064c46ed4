"""An admin client that answers for many partitions at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient

LATEST, EARLIEST = -1, -2
"""Kafka's own numbers for the end and the start of a log, in place of a time."""


class OffsetAdmin(AdminClient):
    """AdminClient's `list_offsets` makes a future for every partition, and they cost more
    than the question: 0.3 s of CPU for 10,000 partitions, 0.1 s without (and 1 s in a single call).
    """

    def list_offsets_at_once(
        self, partitions: Sequence[TopicPartition], level: IsolationLevel, *, timeout_s: float
    ) -> Future[Mapping[TopicPartition, Any]]:
        """The offset of each partition, or the KafkaError it met; ask with LATEST or EARLIEST as offset."""
        answer: Future[Mapping[TopicPartition, Any]] = Future()
        answer.set_running_or_notify_cancel()
        super(AdminClient, self).list_offsets(
            list(partitions), answer, request_timeout=timeout_s, isolation_level_value=level.value
        )
        return answer
