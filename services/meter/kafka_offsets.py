"""Asks Kafka for the offsets of topics, in calls that stay cheap and that one sick broker cannot spoil.

Seen with librdkafka 2.16, and the reason for most of what is done here:

- One `list_offsets` call for 10,000 partitions takes far longer than twenty calls for 500.
- A broker that hangs is answered for with offset -1001 and no error, after the timeout; a leader
  that moved is not noticed until the metadata are asked for again.
- A partition without a leader can hold up the whole call it is in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition

from services.clock import elapsed_s
from services.control.errors import TrafficUnavailable
from services.meter.layout import Layout, TopicLayouts
from services.meter.offset_admin import EARLIEST, LATEST, OffsetAdmin
from services.meter.poll import UNKNOWN, OffsetPoll, Offsets

CHUNK = 500
"""Partitions in one call."""
QUIET: dict[str, Any] = {"log_level": 2, "log.connection.close": False}
"""What librdkafka would print is told by the meter's own log, once per change."""

_NAMED = {"_NOENT": "no leader", "_TIMED_OUT": "no answer", "_TRANSPORT": "no connection"}

Asked = list[tuple[list[TopicPartition], "Future[Mapping[TopicPartition, Any]]"]]
"""The partitions of each call, and its answer to come."""


@dataclass(slots=True)
class _Known:
    """What is remembered of a topic between two polls."""

    layout: Layout
    starts: Offsets = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    starts_at_s: float = float("-inf")
    ends: Offsets = field(default_factory=lambda: np.empty(0, dtype=np.int64))


class KafkaOffsets:
    """Offsets of any number of topics. Blocking; one thread at a time."""

    def __init__(
        self,
        client: Mapping[str, Any],
        *,
        timeout_s: float = 5.0,
        layout_every_s: float = 10.0,
        starts_every_s: float = 10.0,
        chunk: int = CHUNK,
        elapsed_s: Callable[[], float] = elapsed_s,
    ) -> None:
        self._client = {**QUIET, **client}
        self._cluster = str(client.get("bootstrap.servers", "?"))
        self._timeout_s, self._chunk = timeout_s, chunk
        self._layout_every_s, self._starts_every_s = layout_every_s, starts_every_s
        self._elapsed_s = elapsed_s
        self._admin = OffsetAdmin(self._client)
        self.layouts = TopicLayouts(
            self._admin, cluster=self._cluster, timeout_s=timeout_s, elapsed_s=elapsed_s
        )
        self._known: dict[str, _Known] = {}
        self._by_time: Consumer | None = None
        self._usual_s = 0.0
        """How long the ends took when everybody answered last."""

    def poll(self, topics: Collection[str]) -> Mapping[str, OffsetPoll | TrafficUnavailable]:
        """The offsets of each topic now, or why it has none to tell.

        Raises TrafficUnavailable when no broker answers.
        """
        begun_s = self._elapsed_s()
        missing = self._refresh(topics, begun_s)
        asked = {topic: self._known[topic] for topic in topics if topic not in missing}
        asked_s = self._elapsed_s()
        # All are asked before any is waited for: the broker works on one while we read another.
        written = self._ask(asked, LATEST, IsolationLevel.READ_UNCOMMITTED)
        readable = self._ask(asked, LATEST, IsolationLevel.READ_COMMITTED)
        due = {topic: known for topic, known in asked.items() if self._starts_due(known, asked_s)}
        begun = self._ask(due, EARLIEST, IsolationLevel.READ_UNCOMMITTED)
        ends, errors = _collect(written, asked)
        at_s = asked_s + self._took_s(self._elapsed_s() - asked_s, whole=not any(errors.values())) / 2
        stable, _ = _collect(readable, asked)
        starts, _ = _collect(begun, due)
        for topic, found in starts.items():
            self._take_starts(due[topic], found, asked_s)
        took_s = self._elapsed_s() - begun_s
        polled = {
            topic: self._polled(topic, ends[topic], stable[topic], errors[topic], at_s=at_s, took_s=took_s)
            for topic in asked
        }
        return {**polled, **missing}

    def at_times(self, topic: str, wanted: Sequence[tuple[int, float]]) -> Sequence[int]:
        """For each (partition, epoch seconds) the first offset from then on; see `OffsetSource`."""
        if self.layouts.embedded:
            return [UNKNOWN] * len(wanted)
        found: list[int] = []
        for first in range(0, len(wanted), self._chunk):
            found += self._at_times(topic, wanted[first : first + self._chunk])
        return found

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has. Raises TrafficUnavailable."""
        missing = self._refresh([topic], self._elapsed_s())
        if topic in missing:
            raise missing[topic]
        return len(self._known[topic].layout.leaders)

    def close(self) -> None:
        """Let go of the cluster."""
        if self._by_time is not None:
            self._by_time.close()

    def _refresh(self, topics: Collection[str], now_s: float) -> dict[str, TrafficUnavailable]:
        """Ask anew for layouts that are old or doubted; returns the topics that are not there."""
        oldest_s = now_s - self._layout_every_s
        due = [t for t in topics if t not in self._known or self._known[t].layout.at_s <= oldest_s]
        found = self.layouts.ask(due) if due else {}
        for topic in due:
            if topic in found:
                known = self._known.setdefault(topic, _Known(found[topic]))
                known.layout = found[topic]
            else:
                self._known.pop(topic, None)
        return {topic: self.layouts.missing(topic) for topic in due if topic not in found}

    def _ask(self, topics: Mapping[str, _Known], which: int, level: IsolationLevel) -> Asked:
        """Requests for all partitions that have a leader."""
        led = [
            TopicPartition(topic, partition, which)
            for topic, known in topics.items()
            for partition, leader in enumerate(known.layout.leaders)
            if leader is not None
        ]
        chunks = [led[first : first + self._chunk] for first in range(0, len(led), self._chunk)]
        ask = self._admin.list_offsets_at_once
        return [(chunk, ask(chunk, level, timeout_s=self._timeout_s)) for chunk in chunks]

    def _polled(
        self, topic: str, ends: Offsets, stable: Offsets, errors: Counter[str], *, at_s: float, took_s: float
    ) -> OffsetPoll | TrafficUnavailable:
        known = self._known[topic]
        layout_at_s = known.layout.at_s
        if errors:  # a leader may have moved, and only new metadata tell where to
            known.layout = Layout(known.layout.topic_id, known.layout.leaders, at_s=float("-inf"))
        if np.all(ends == UNKNOWN):
            kinds = ", ".join(f"{kind} ({count} partitions)" for kind, count in sorted(errors.items()))
            return TrafficUnavailable(f"topic {topic!r} on {self._cluster} cannot be measured: {kinds}")
        known.ends = ends
        return OffsetPoll(
            at_s=at_s,
            ends=ends,
            stable=stable,
            starts=known.starts.copy(),
            topic_id=known.layout.topic_id,
            layout_at_s=layout_at_s,
            took_s=took_s,
            errors=dict(errors),
        )

    def _took_s(self, waited_s: float, *, whole: bool) -> float:
        """How long those who answered took. A call waits for a broker that hangs until its time is out;
        dated to the middle of that, what the others said at once would make their rates a quarter lower."""
        if not whole:
            return min(waited_s, self._usual_s)
        self._usual_s = waited_s
        return waited_s

    def _starts_due(self, known: _Known, now_s: float) -> bool:
        partitions = len(known.layout.leaders)
        return len(known.starts) != partitions or now_s - known.starts_at_s >= self._starts_every_s

    def _take_starts(self, known: _Known, starts: Offsets, at_s: float) -> None:
        kept = known.starts if len(known.starts) == len(starts) else starts
        known.starts = np.where(starts != UNKNOWN, starts, kept)
        known.starts_at_s = at_s

    def _at_times(self, topic: str, wanted: Sequence[tuple[int, float]]) -> list[int]:
        if self._by_time is None:  # never subscribed: it is no member of the group it must name
            self._by_time = Consumer({**self._client, "group.id": "penstock-meter"})
        asked = [TopicPartition(topic, partition, round(at_s * 1000)) for partition, at_s in wanted]
        try:
            answers = self._by_time.offsets_for_times(asked, timeout=self._timeout_s)
        except KafkaException:
            return [UNKNOWN] * len(wanted)
        told = {answer.partition: UNKNOWN if answer.error else answer.offset for answer in answers}
        return [self._or_end(topic, partition, told[partition]) for partition, _ in wanted]

    def _or_end(self, topic: str, partition: int, offset: int) -> int:
        """Kafka says -1 when nothing came since: then it is the end as last seen."""
        known = self._known.get(topic)
        if offset >= 0 or known is None or partition >= len(known.ends):
            return offset
        return int(known.ends[partition])


def _collect(
    asked: Asked, topics: Mapping[str, _Known]
) -> tuple[dict[str, Offsets], dict[str, Counter[str]]]:
    """By topic, the offsets that came back, and for those that did not a count by kind of error."""
    leaders = {topic: known.layout.leaders for topic, known in topics.items()}
    offsets = {topic: np.full(len(led), UNKNOWN, dtype=np.int64) for topic, led in leaders.items()}
    errors = {topic: +Counter({"no leader": led.count(None)}) for topic, led in leaders.items()}
    for partitions, answer in asked:
        try:
            told = answer.result()
        except KafkaException as error:
            told = dict.fromkeys(partitions, error.args[0])
        for which, found in told.items():
            if isinstance(found, KafkaError):
                errors[which.topic][_kind(found)] += 1
            elif found.offset < 0:  # what a broker that hangs is answered for with
                errors[which.topic]["no answer"] += 1
            else:
                offsets[which.topic][which.partition] = found.offset
    return offsets, errors


def _kind(error: KafkaError) -> str:
    """A few words that are the same for the same trouble: they label a metric.

    >>> _kind(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    'leader not available'
    """
    name: str = error.name()
    return _NAMED.get(name, name.lower().replace("_", " ").strip())
