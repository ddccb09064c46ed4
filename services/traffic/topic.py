"""Makes sure that the topic is there before samples are sent to it.

TopicUnavailable   no broker answers, or the topic is missing and may not or cannot be made
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


class TopicUnavailable(Exception):
    """The topic cannot be sent to. The message says why and what to do."""


def require_topic(
    client: Mapping[str, Any], topic: str, *, partitions: int | None, timeout_s: float = 10.0
) -> int:
    """How many partitions the topic has; made with `partitions` if missing and that is given.

    All topics are listed, because asking for a missing one by name creates it
    on clusters that make topics by themselves, with a partition count nobody chose.
    """
    admin = AdminClient({"log_level": 2, **client})
    cluster = client.get("bootstrap.servers", "?")
    try:
        known = admin.list_topics(timeout=timeout_s).topics
    except KafkaException as error:
        raise TopicUnavailable(
            f"no broker at {cluster} answers within {timeout_s:g} s ({error.args[0].str()}); "
            "check the address and that Kafka is up"
        ) from error
    if topic in known:
        return len(known[topic].partitions)
    if partitions is None:
        raise TopicUnavailable(
            f"topic {topic!r} is not on {cluster}; create it, or say --partitions N to have it made"
        )
    _create(admin, topic, partitions, timeout_s, str(cluster))
    return partitions


def _create(admin: AdminClient, topic: str, partitions: int, timeout_s: float, cluster: str) -> None:
    try:
        made = admin.create_topics([NewTopic(topic, num_partitions=partitions)], request_timeout=timeout_s)
        made[topic].result(timeout_s)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise TopicUnavailable(
                f"topic {topic!r} cannot be made on {cluster}: {error.args[0].str()}"
            ) from error
    except TimeoutError as error:
        raise TopicUnavailable(f"topic {topic!r} was not made on {cluster} within {timeout_s:g} s") from error
