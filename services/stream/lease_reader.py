"""Read leases from Kafka, and say what Kafka no longer has of them."""

from __future__ import annotations

import structlog
from confluent_kafka import Message

from services.stream.batch import Holding, Part
from services.stream.errors import SourceMissing, SourceUnavailable
from services.stream.outage import Outage
from services.stream.range_reader import RangeReader
from services.stream.topic import Topic

_log = structlog.get_logger(__name__)


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
        holding.read_to = reader.position
        holding.exhausted = reader.exhausted
        return records

    def _skip_deleted(self, holding: Holding) -> None:
        """Kafka no longer has what was leased: count it as lost, and go on behind it."""
        partition, gone_from = holding.lease.partition, self._reader.position
        extent = self._extent(partition)
        if extent is None:
            return
        log_start, log_end = extent
        # Behind the end of the log: the topic was recreated, or a broker lost its latest records.
        gone_to = holding.lease.end if gone_from > log_end else min(log_start, holding.lease.end)
        self._reader.skip_to(gone_to)
        if gone_to > gone_from:
            holding.deleted.append((gone_from, gone_to))
            _log.error(
                "samples_lost",
                topic=self._topic.name,
                partition=partition,
                offsets=[gone_from, gone_to],
                log_start=log_start,
                log_end=log_end,
                remedy="Kafka deleted them before they were trained: longer retention or more workers",
            )

    def _extent(self, partition: int) -> tuple[int, int] | None:
        """Where the log begins and ends; None while Kafka does not say."""
        if not self._kafka.over:
            return None
        try:
            extent = self._topic.extent(partition)
        except (SourceUnavailable, SourceMissing) as error:
            self._kafka.failed(error)  # a topic that was there may be made anew just now
            return None
        self._kafka.answered()
        return extent
