"""Which partitions a topic has and who leads them, asked for without ever creating the topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from services.control.errors import TrafficUnavailable
from services.meter.offset_admin import OffsetAdmin

EMBEDDED_CLUSTER = "mockCluster"
"""How the ids of librdkafka's own clusters begin; describing topics hangs there, and has no topic ids."""

_NOT_THERE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED})


@dataclass(frozen=True, slots=True)
class Layout:
    """What a topic consists of. Another `topic_id` is another topic, whatever its name."""

    topic_id: str
    """Empty where the cluster does not tell."""
    leaders: tuple[int | None, ...]
    """The leading broker of every partition; None for one that has none now."""
    at_s: float
    """When it was asked for, in elapsed seconds."""


class TopicLayouts:
    """Asks for layouts. Blocking."""

    def __init__(
        self, admin: OffsetAdmin, *, cluster: str, timeout_s: float, elapsed_s: Callable[[], float]
    ) -> None:
        self._admin = admin
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._elapsed_s = elapsed_s
        self._embedded: bool | None = None

    @property
    def embedded(self) -> bool:
        """Whether this is librdkafka's own cluster, which lacks topic ids and offsets by time."""
        return self._embedded is True

    def ask(self, topics: Iterable[str]) -> Mapping[str, Layout]:
        """The layouts of those topics that are there. Raises TrafficUnavailable when no broker answers."""
        at_s, wanted = self._elapsed_s(), list(topics)
        self._admin.refusal()  # of old; only one from now on explains a silence
        try:
            if self._embedded is None:
                self._embedded = self._list().cluster_id.startswith(EMBEDDED_CLUSTER)
            return self._listed(wanted, at_s) if self._embedded else self._described_or_listed(wanted, at_s)
        except KafkaException as error:
            raise self._silent(error) from error

    def missing(self, topic: str) -> TrafficUnavailable:
        """What to say of a topic that is not there."""
        return TrafficUnavailable(
            f"topic {topic!r} is not on {self._cluster}; create it, or correct the job's `topic`, "
            "or let this user describe it"
        )

    def names(self) -> tuple[str, ...]:
        """All topics of the cluster but Kafka's own. Raises TrafficUnavailable."""
        try:
            listed = self._list()
        except KafkaException as error:
            raise self._silent(error) from error
        return tuple(sorted(name for name in listed.topics if not name.startswith("__")))

    def _described_or_listed(self, topics: list[str], at_s: float) -> dict[str, Layout]:
        """Descriptions come from the controller. When that has died, librdkafka keeps asking it in
        vain; any broker can list the topics, and tells who the controller is now, but not the topics' ids.
        """
        try:
            return self._described(topics, at_s)
        except KafkaException:
            return self._listed(topics, at_s)

    def _silent(self, error: KafkaException) -> TrafficUnavailable:
        refusal = self._admin.refusal()
        if refusal:
            return TrafficUnavailable(
                f"no broker at {self._cluster} lets us in ({refusal}); check `kafka.options`"
            )
        return TrafficUnavailable(
            f"no broker at {self._cluster} answers within {self._timeout_s:g} s "
            f"({error.args[0].str()}); check the address and that Kafka is up"
        )

    def _list(self) -> Any:
        return self._admin.list_topics(timeout=self._timeout_s)

    def _listed(self, topics: Iterable[str], at_s: float) -> dict[str, Layout]:
        known = self._list().topics
        return {
            topic: Layout(
                topic_id="",
                leaders=tuple(
                    _leader(known[topic].partitions[number].leader)
                    for number in sorted(known[topic].partitions)
                ),
                at_s=at_s,
            )
            for topic in topics
            if topic in known
        }

    def _described(self, topics: Iterable[str], at_s: float) -> dict[str, Layout]:
        wanted = list(topics)
        asked = self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._timeout_s)
        layouts = {}
        for topic, answer in asked.items():
            try:
                described = answer.result()
            except KafkaException as error:
                if error.args[0].code() in _NOT_THERE:
                    continue
                raise
            leaders = {part.id: part.leader for part in described.partitions}
            layouts[topic] = Layout(
                topic_id=str(described.topic_id),
                leaders=tuple(
                    None if leaders[number] is None else _leader(leaders[number].id)
                    for number in sorted(leaders)
                ),
                at_s=at_s,
            )
        return layouts


def _leader(broker: int) -> int | None:
    return broker if broker >= 0 else None
