"""Ask Kafka where partitions begin and end, without reading a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined] # not in its __all__

from services.stream.errors import SourceMissing, SourceUnavailable, StreamError

_AT_ONCE: Final = 500
"""Partitions asked for in one call."""


def begin_offsets(
    admin: AdminClient, topic: str, partitions: Iterable[int], *, timeout_s: float
) -> dict[int, int]:
    """The first offset that Kafka still has of each partition. Raises KafkaException."""
    return _list_offsets(admin, topic, partitions, OffsetSpec.earliest, timeout_s)


def stable_ends(
    admin: AdminClient, topic: str, partitions: Iterable[int], *, timeout_s: float
) -> dict[int, int]:
    """The last stable offset of each: below it, transactions are committed or aborted for good.

    A partition without a leader is left out; it comes back with its leader. Raises KafkaException
    when none answers.
    """
    return _list_offsets(admin, topic, partitions, OffsetSpec.latest, timeout_s)


def time_offsets(
    admin: AdminClient, topic: str, partitions: Iterable[int], *, at_s: float, timeout_s: float
) -> dict[int, int]:
    """The first offset of each partition that is not older than `at_s`; -1 where all are.

    Raises KafkaException.
    """
    return _list_offsets(
        admin, topic, partitions, lambda: OffsetSpec.for_timestamp(round(at_s * 1000)), timeout_s
    )


def end_offsets(client: Mapping[str, Any], topic: str, *, timeout_s: float = 5.0) -> dict[int, int]:
    """Where each partition of `topic` ends now, asked with a client of its own.

    Raises SourceMissing, SourceUnavailable.
    """
    where = str(client.get("bootstrap.servers", "?"))
    admin = AdminClient({**client, "log_level": 2})
    try:
        # A request that names a topic creates it on some brokers: this one names none.
        found = admin.list_topics(timeout=timeout_s).topics.get(topic)
        if found is None:
            raise SourceMissing(topic, where)
        return stable_ends(admin, topic, found.partitions, timeout_s=timeout_s)
    except KafkaException as error:
        raise explain(error.args[0], topic=topic, where=where) from error


def explain(error: KafkaError, *, topic: str, where: str) -> StreamError:
    """What Kafka's error means to a stream."""
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
        return SourceMissing(topic, where)
    return SourceUnavailable(where, error.str())


def _list_offsets(
    admin: AdminClient,
    topic: str,
    partitions: Iterable[int],
    spec: Callable[[], OffsetSpec],
    timeout_s: float,
) -> dict[int, int]:
    asked = [TopicPartition(topic, partition) for partition in partitions]
    found: dict[int, int] = {}
    failure: KafkaException | None = None
    for first in range(0, len(asked), _AT_ONCE):
        answers = admin.list_offsets(
            {place: spec() for place in asked[first : first + _AT_ONCE]},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=timeout_s,
        )
        for place, future in answers.items():
            try:
                found[place.partition] = future.result().offset
            except KafkaException as error:
                failure = error
    if failure is not None and not found:
        raise failure
    return found
