"""A topic on a real cluster, as producers, consumers and operators treat it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from services.control.errors import TrafficUnavailable
from services.control.types import TrafficReading
from services.meter.kafka_meter import KafkaMeter
from shuffler.lease import Progress
from tests.meter.scripted import ManualClock
from tests.waiting import eventually, eventually_async


class LiveTopic:
    """Writes to and commits on one topic. Every call returns when the cluster has acknowledged."""

    def __init__(
        self, bootstrap: str, topic: str, group: str, *, options: Mapping[str, str] | None = None
    ) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.client = {"bootstrap.servers": bootstrap, "log_level": 2, **(options or {})}
        self._producer = Producer(self.client)

    def produce(self, *counts: int, size: int = 20, at_s: float | None = None) -> None:
        """So many records for partition 0, 1, ..."""
        date_ms = 0 if at_s is None else round(at_s * 1000)  # zero: now
        for partition, count in enumerate(counts):
            for _ in range(count):
                self._producer.produce(self.topic, b"x" * size, partition=partition, timestamp=date_ms)
        assert self._producer.flush(60) == 0

    def produce_to(self, partition: int, count: int) -> None:
        """So many records for one partition."""
        for _ in range(count):
            self._producer.produce(self.topic, b"x", partition=partition)
        assert self._producer.flush(60) == 0

    def produce_keyed(self, partition: int, *, keys: int, count: int) -> None:
        """Records that compaction may remove: few keys, written again and again."""
        for number in range(count):
            self._producer.produce(self.topic, b"x", key=b"key-%d" % (number % keys), partition=partition)
        assert self._producer.flush(60) == 0

    def readable(self, partition: int) -> int:
        """How many records a reader of the whole partition finds."""
        reader = Consumer({**self.client, "group.id": "reader", "enable.partition.eof": True})
        reader.assign([TopicPartition(self.topic, partition, 0)])
        found = 0
        try:
            while (message := reader.poll(30)) is not None and message.error() is None:
                found += 1
        finally:
            reader.close()
        return found

    @contextmanager
    def transaction(self, name: str) -> Iterator[Producer]:
        """A producer with an open transaction; what becomes of it is the test's affair."""
        producer = Producer({**self.client, "transactional.id": f"{self.topic}-{name}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        yield producer

    def commit(self, offsets: Mapping[int, int]) -> None:
        """As a consumer of the group would, or an operator who resets it."""
        reader = Consumer({**self.client, "group.id": self.group, "enable.auto.commit": False})
        wanted = [TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()]

        def committed() -> bool:
            try:
                reader.commit(offsets=wanted, asynchronous=False)
            except KafkaException:
                return False
            return True

        try:
            eventually(committed, within_s=60, what="a commit")
        finally:
            reader.close()


class CommittedReader:
    """Reads partition 0 as a worker does, committed records only, and stands for the ledger."""

    def __init__(self, live: LiveTopic) -> None:
        options = {"group.id": "reader", "enable.partition.eof": True, "isolation.level": "read_committed"}
        self._reader = Consumer({**live.client, **options})
        self._reader.assign([TopicPartition(live.topic, 0, 0)])
        self.reached = self.records = 0

    def __enter__(self) -> CommittedReader:
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.close()

    def read_on(self, *, until: int) -> None:
        """Read up to this offset, markers and aborted records included."""
        eventually(lambda: self._read_to_the_end() >= until, within_s=60, what=f"offset {until}")

    def _read_to_the_end(self) -> int:
        while (message := self._reader.poll(5)) is not None and message.error() is None:
            self.records += 1
        if message is not None:  # the end of the partition, as far as it may be read
            self.reached = message.offset() or self.reached
        return self.reached

    async def progress(self) -> Progress:
        done = {0: self.reached}
        return Progress(done, {}, trained=self.records, late=0, repeated=0, lost=0, epoch=1)


class Metered:
    """A meter on a live topic, whose time passes only when the test says so: rates come out exact."""

    def __init__(self, live: LiveTopic, *, clock: ManualClock | None = None, **settings: Any) -> None:
        self.clock = clock or ManualClock(time.time())
        self.meter = KafkaMeter(
            live.client,
            topic=live.topic,
            group=live.group,
            clock=self.clock,
            elapsed_s=self.clock.elapsed_s,
            **{"step_s": 10.0, **settings},
        )

    async def __aenter__(self) -> Metered:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.meter.close()

    async def read(self, after_s: float = 1.0) -> TrafficReading:
        """The reading `after_s` seconds later. Eleven seconds are enough for fresh metadata."""
        self.clock.advance(after_s)
        return await self.meter.read()

    async def until(
        self, satisfied: Callable[[TrafficReading], bool], *, within_s: float = 120.0
    ) -> TrafficReading:
        """The first reading that satisfies, one simulated second after another."""
        readings: list[TrafficReading] = []

        async def found() -> bool:
            try:
                readings.append(await self.read())
            except TrafficUnavailable as error:
                raise AssertionError(str(error)) from error  # not yet
            return satisfied(readings[-1])

        await eventually_async(found, within_s=within_s)
        return readings[-1]


def healthy(reading: TrafficReading) -> bool:
    """Everything could be measured."""
    return not reading.degraded
