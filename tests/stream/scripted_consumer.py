"""A consumer that delivers what a test wrote down."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from confluent_kafka import KafkaError, TopicPartition


@dataclass(frozen=True)
class Record:
    """What a consumer delivers: a record, or an event when `code` is set."""

    at: int
    code: int | None = None
    of: int = 0
    sent_ms: int = 10**15
    """In the far future unless said otherwise: never late."""

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.sent_ms

    def partition(self) -> int:
        return self.of


class Watch:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class ScriptedConsumer:
    """Delivers what the test wrote, from the offset that it is assigned; remembers the seeks."""

    def __init__(self, *log: Record, watch: Watch | None = None) -> None:
        self.log = list(log)
        self._watch = watch or Watch()
        self.seeks: list[tuple[int, int]] = []
        self._queue: deque[Record] = deque()

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        (place,) = places
        self.seeks.append((place.partition, place.offset))
        self._queue = deque(r for r in self.log if r.of == place.partition and r.at >= place.offset)

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        self._queue.clear()

    def consume(self, count: int, timeout: float) -> list[Record]:
        if not self._queue:
            self._watch.now += timeout
        delivered = [self._queue.popleft() for _ in range(min(count, len(self._queue)))]
        for number, record in enumerate(delivered):
            if record.code == KafkaError._AUTO_OFFSET_RESET:
                self._queue.clear()  # the partition stands still until it is assigned anew
                return delivered[: number + 1]
        return delivered
