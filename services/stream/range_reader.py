"""Read the records of one offset range after another, seeking only when they are not contiguous."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Final

import structlog
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from shuffler.lease import Lease

_log = structlog.get_logger(__name__)

_OUT_OF_RANGE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_STALLED_S: Final = 5.0
"""Having waited this long for a record, the range is asked for anew: an event may have been missed."""


class RangeReader:
    """Reads leases one at a time from a consumer that it has for itself.

    Offsets are not contiguous (transactions, compaction), so a range ends at the first record at or
    past its end, or where the partition ends at or past it. Records read beyond the range are kept:
    the next lease is often the next range.
    """

    def __init__(
        self, consumer: Consumer, topic: str, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._now_s = now_s
        self._partition: int | None = None
        self._position = 0
        self._end = 0
        self._ahead: list[Message] = []
        self._read_to = 0
        """Everything below was delivered by Kafka, or is not there."""
        self._silent_s = 0.0
        """How long was waited for records since the last came."""
        self.out_of_range = False
        """Kafka does not have the position (any more): look where its log begins, and `skip_to`."""
        self.stalled = False
        """Whether the last read ended a long wait for nothing: see whether the partition still is there."""
        self.trouble: KafkaError | None = None
        """What Kafka last complained of; librdkafka tries again by itself."""

    @property
    def position(self) -> int:
        """All records of the range below this offset were given."""
        return self._position

    @property
    def exhausted(self) -> bool:
        """Whether the range has no more records."""
        return self._position >= self._end

    def begin(self, lease: Lease) -> None:
        """Read `lease` next. Goes on without a seek where the last range was read to its end."""
        contiguous = lease.partition == self._partition and lease.start == self._position
        self._end = lease.end
        self._silent_s = 0.0
        if not contiguous:
            self._jump(lease.partition, lease.start)

    def read(self, limit: int, *, timeout_s: float) -> list[Message]:
        """Up to `limit` records of the range; fewer, even none, when they take longer than `timeout_s`."""
        self.stalled = False
        if not self._ahead and self._read_to < self._end:
            self._fetch(limit, timeout_s)
        records, self._ahead = _split(self._ahead, limit, self._end)
        if records:
            self._position = _offset(records[-1]) + 1
        covered_to = _offset(self._ahead[0]) if self._ahead else self._read_to
        if covered_to >= self._end:
            self._position = self._end
        return records

    def skip_to(self, offset: int) -> int:
        """Leave out what lies below `offset`, or below the end of the range; how many offsets that is."""
        target = min(max(offset, self._position), self._end)
        skipped = target - self._position
        self._jump(self._partition_read(), target)
        return skipped

    def end(self) -> None:
        """Stop reading; the consumer is free for other uses."""
        if self._partition is not None:
            self._consumer.incremental_unassign([TopicPartition(self._topic, self._partition)])
            self._partition = None

    def _partition_read(self) -> int:
        if self._partition is None:
            raise RuntimeError("no range was begun")
        return self._partition

    def _jump(self, partition: int, offset: int) -> None:
        if self._partition is not None:
            self._consumer.incremental_unassign([TopicPartition(self._topic, self._partition)])
        self._consumer.incremental_assign([TopicPartition(self._topic, partition, offset)])
        self._partition, self._position, self._read_to = partition, offset, offset
        self._ahead = []
        self.out_of_range = False
        self._silent_s = 0.0

    def _fetch(self, limit: int, timeout_s: float) -> None:
        """Wait for records and keep them; hear the events among them."""
        wanted = max(1, min(limit, self._end - self._read_to))
        asked_at_s = self._now_s()
        messages = self._consumer.consume(wanted, timeout_s)
        self._silent_s += self._now_s() - asked_at_s
        # Compiled into a direct call; `any` over a methodcaller was measured to cost several times as much.
        self._ahead = [message for message in messages if message.error() is None]
        if self._ahead:
            self._advance(_offset(self._ahead[-1]) + 1)
        if len(self._ahead) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._hear(message)
        if self._silent_s > _STALLED_S and not self.out_of_range:
            _log.debug("range_asked_anew", partition=self._partition, offset=self._position, end=self._end)
            self._jump(self._partition_read(), self._position)
            self.stalled = True

    def _hear(self, event: Message) -> None:
        error = event.error()
        code = None if error is None else error.code()
        if code == KafkaError._PARTITION_EOF:
            self._advance(_offset(event))
        elif code in _OUT_OF_RANGE:
            self.out_of_range = True
        else:
            self.trouble = error

    def _advance(self, offset: int) -> None:
        self._read_to = max(self._read_to, offset)
        self._silent_s = 0.0
        self.trouble = None


def _split(records: list[Message], limit: int, end: int) -> tuple[list[Message], list[Message]]:
    """The first `limit` records, as far as they lie below `end`, and the others."""
    if len(records) <= limit and (not records or _offset(records[-1]) < end):
        return records, []
    count = bisect_left(records, end, hi=min(limit, len(records)), key=_offset)
    return records[:count], records[count:]


def _offset(message: Message) -> int:
    offset = message.offset()
    if offset is None:
        raise RuntimeError("Kafka delivered a record without an offset")
    return offset
