"""Read leases from Kafka, and say what Kafka no longer has of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog
from confluent_kafka import Message

from services.stream.batch import Holding, Part
from services.stream.errors import SourceMissing, SourceUnavailable
from services.stream.outage import Outage
from services.stream.range_reader import RangeReader
from services.stream.topic import Topic

_log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")


class LeaseReader:
    """Reads one lease after another; implements LeaseSource. One thread at a time."""

    def __init__(self, topic: Topic, kafka: Outage) -> None:
        self._topic = topic
        self._kafka = kafka
        self._reader = RangeReader(topic.consumer, topic.name)
        self._begun: Holding | None = None

    def begin(self, holding: Holding) -> None:
        """Have Kafka fetch this lease. One that was begun already stays as it is."""
        if holding is not self._begun:
            self._begun = holding
            self._reader.begin(holding.lease)

    def read(self, holding: Holding, limit: int, *, timeout_s: float) -> list[Message]:
        """Up to `limit` records of the lease, noted as a part of it that is to be trained.

        What Kafka has deleted of it is noted as such, and told.
        """
        self.begin(holding)
        reader = self._reader
        records = reader.read(limit, timeout_s=timeout_s)
        if reader.trouble is not None:
            self._kafka.failed(reader.trouble.str())
        elif records:
            self._kafka.answered()
        if records:
            holding.parts.append(Part(len(records), upto=reader.position, epoch=holding.lease.epoch))
        if reader.out_of_range:
            self._skip_deleted(holding)
        elif reader.stalled:
            self._skip_without_partition(holding)
        holding.read_to = reader.position
        holding.exhausted = reader.exhausted
        return records

    def _skip_deleted(self, holding: Holding) -> None:
        """Kafka no longer has what was leased: count it as lost, and go on behind it."""
        partition, gone_from = holding.lease.partition, self._reader.position
        extent = self._ask(lambda: self._topic.extent(partition))
        if extent is None:
            return
        log_start, log_end = extent
        # Behind the end of the log: the topic was recreated, or a broker lost its latest records.
        gone_to = holding.lease.end if gone_from > log_end else min(log_start, holding.lease.end)
        self._lose(holding, gone_to, log_start=log_start, log_end=log_end)

    def _skip_without_partition(self, holding: Holding) -> None:
        """A topic that was made anew may have fewer partitions: of the others nothing comes, not even an
        error, and whoever waited for it would never train again."""
        partitions = self._ask(self._topic.partitions)
        if partitions is not None and holding.lease.partition not in partitions:
            self._lose(holding, holding.lease.end, partitions=len(partitions))

    def _lose(self, holding: Holding, gone_to: int, **found: int) -> None:
        """Leave out what lies below `gone_to`: Kafka does not have it."""
        gone_from = self._reader.position
        self._reader.skip_to(gone_to)
        if gone_to > gone_from:
            holding.deleted.append((gone_from, gone_to))
            _log.error(
                "samples_lost",
                topic=self._topic.name,
                partition=holding.lease.partition,
                offsets=[gone_from, gone_to],
                **found,
                remedy="Kafka deleted them before they were trained: longer retention or more workers",
            )

    def _ask(self, question: Callable[[], Answer]) -> Answer | None:
        """Kafka's answer; None while it does not say."""
        if not self._kafka.over:
            return None
        try:
            answer = question()
        except (SourceUnavailable, SourceMissing) as error:
            self._kafka.failed(error)  # a topic that was there may be made anew just now
            return None
        self._kafka.answered()
        return answer
