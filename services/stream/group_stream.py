"""Batches from Kafka's own consumer group: for comparison, and for those who want it.

Kafka gives whole partitions to members: never more workers than partitions, no share by speed, and a
pause at every resize. Offsets are committed once batches are done, in order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from services.settings.root import KafkaSettings
from services.stream.batch import Batch, Decode, Part
from services.stream.errors import SourceMissing
from services.stream.offsets import explain
from services.stream.outage import Outage
from services.stream.plan import StreamPlan

_log = structlog.get_logger(__name__)

_READ_S: Final = 0.05


@dataclass(slots=True)
class _Given:
    """A batch that was handed out: where each of its partitions goes on behind it."""

    part: Part
    positions: dict[int, int]


class GroupStream(Iterator[Batch]):
    """Implements BatchStream as a member of the job's group. `stop` may come from any thread."""

    def __init__(self, kafka: KafkaSettings, plan: StreamPlan, *, decode: Decode = Message.value) -> None:
        self._plan = plan
        self._decode = decode
        self._kafka = kafka
        self._consumer = Consumer(kafka.client(**_membership(plan), on_commit=self._on_commit))
        self._consumer.subscribe([plan.topic], on_revoke=self._on_revoke, on_lost=self._on_lost)
        self._given: deque[_Given] = deque()
        self._positions: dict[int, int] = {}
        """Behind what is done."""
        self._taken: dict[int, int] = {}
        """What of it the group has taken."""
        self._commit_at_s = 0.0
        self._stopping = Event()
        self._outage = Outage("kafka group")
        self._closed = False

    def __next__(self) -> Batch:
        while not self._stopping.is_set():
            samples = self._read()
            self._commit_now_and_then()
            if samples:
                return self._hand_out(samples)
        self.close()
        raise StopIteration

    def connect(self) -> None:
        """Ask once whether Kafka is there and has the topic: a member that subscribes to nothing waits for
        ever, and without a broker it is not even told why.

        Raises SourceUnavailable, SourceMissing.
        """
        topic, where = self._plan.topic, self._kafka.bootstrap
        try:
            # A request that names a topic creates it on some brokers: this one names none.
            there = self._consumer.list_topics(timeout=self._kafka.timeout_s).topics
        except KafkaException as error:
            raise explain(error.args[0], topic=topic, where=where) from error
        if topic not in there:
            raise SourceMissing(topic, where)

    def stop(self) -> None:
        """Take no more work; the iteration ends with the next batch asked for."""
        self._stopping.set()

    def close(self) -> None:
        """Commit what is done and leave the group. Twice is once."""
        if self._closed:
            return
        self._closed = True
        self._stopping.set()
        self._commit(asynchronous=False)
        self._consumer.close()

    def _read(self) -> list[Message]:
        """A full batch, or what came while the first of it waited for `linger_s`."""
        samples: list[Message] = []
        leave_at_s = float("inf")
        while len(samples) < self._plan.batch and not self._stopping.is_set():
            wait_s = min(_READ_S, max(0.0, leave_at_s - time.monotonic()))
            found = self._consumer.consume(self._plan.batch - len(samples), wait_s)
            samples += [message for message in found if self._is_sample(message)]
            now_s = time.monotonic()
            if samples and leave_at_s == float("inf"):
                leave_at_s = now_s + self._plan.linger_s
            if now_s >= leave_at_s or (not found and not samples):
                break
        return samples

    def _is_sample(self, message: Message) -> bool:
        error = message.error()
        if error is None:
            self._outage.answered()
            return True
        self._outage.failed(error.str())
        return False

    def _hand_out(self, samples: list[Message]) -> Batch:
        positions = {message.partition() or 0: (message.offset() or 0) + 1 for message in samples}
        part = Part(len(samples), upto=0)
        self._given.append(_Given(part, positions))
        return Batch(
            samples,
            [part],
            fresh_within_s=self._plan.fresh_within_s,
            on_done=lambda _samples, _took_s: None,
            decode=self._decode,
        )

    def _commit_now_and_then(self) -> None:
        if time.monotonic() >= self._commit_at_s:
            self._commit_at_s = time.monotonic() + self._plan.commit_s
            self._commit(asynchronous=True)

    def _commit(self, *, asynchronous: bool) -> None:
        """Commit behind the last batch before which all are done. A failure is told, not raised, and what the
        group did not take is committed again with the next: while nothing new comes, too."""
        while self._given and self._given[0].part.done:
            self._positions |= self._given.popleft().positions
        mine = {place.partition for place in self._consumer.assignment()}
        due = {p: at for p, at in self._positions.items() if p in mine and self._taken.get(p) != at}
        offsets = [TopicPartition(self._plan.topic, p, at) for p, at in due.items()]
        if not offsets:
            return
        try:
            if asynchronous:
                self._consumer.commit(offsets=offsets)
            else:
                self._on_commit(None, self._consumer.commit(offsets=offsets, asynchronous=False))
        except KafkaException as error:
            _log.warning("group_commit_failed", why=error.args[0].str(), remedy="the next one tells the same")

    def _on_commit(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        if error is None:
            self._taken |= {place.partition: place.offset for place in places if place.error is None}

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit(asynchronous=False)
        self._forget(partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        _log.warning("partitions_lost", partitions=[place.partition for place in partitions])
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        """What was read of these is another member's: it starts from our last commit."""
        for place in partitions:
            self._positions.pop(place.partition, None)
            self._taken.pop(place.partition, None)
            for given in self._given:
                given.positions.pop(place.partition, None)


def _membership(plan: StreamPlan) -> dict[str, Any]:
    protocol: dict[str, Any] = {"partition.assignment.strategy": "cooperative-sticky"}
    if plan.group_protocol == "consumer":
        protocol = {"group.protocol": "consumer"}
    return {
        **protocol,
        "group.id": plan.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "latest" if plan.start == "latest" else "earliest",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 10,
        "log_level": 2,
    }
