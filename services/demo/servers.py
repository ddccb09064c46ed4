"""The servers of a demo: embedded ones, or those the user named. Nothing is left on either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from redis.exceptions import RedisError

from services.demo.scenario import PARTITIONS
from services.embedded.librdkafka import EmbeddedKafka
from services.embedded.redis import EmbeddedRedis
from services.settings.root import RedisSettings
from services.store.connect import connect_sync

_TIMEOUT_S = 10.0


class ServerUnavailable(Exception):
    """A server that the user named cannot be used; the message says which and why."""


@dataclass(frozen=True, slots=True)
class DemoServers:
    """Where the demo's Kafka and Redis are. `mend` replaces what died, and says so."""

    kafka: str
    topic: str
    redis: str
    prefix: str
    mend: Callable[[], str | None]


@contextmanager
def demo_servers(*, kafka: str | None, redis: str | None) -> Iterator[DemoServers]:
    """Kafka with a topic of its own, Redis with a key prefix of its own. Raises ServerUnavailable."""
    name = f"penstock-demo-{uuid4().hex[:8]}"
    with _kafka(kafka, name) as bootstrap, _redis(redis, name) as (url, mend):
        yield DemoServers(kafka=bootstrap, topic=name, redis=url, prefix=name, mend=mend)


@contextmanager
def _kafka(bootstrap: str | None, topic: str) -> Iterator[str]:
    if bootstrap is None:
        with EmbeddedKafka(brokers=1) as embedded:
            embedded.create_topic(topic, PARTITIONS)
            yield embedded.bootstrap
        return
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    try:
        admin.create_topics([NewTopic(topic, PARTITIONS)], operation_timeout=_TIMEOUT_S)[topic].result(
            timeout=_TIMEOUT_S
        )
    except (KafkaException, TimeoutError) as error:
        raise ServerUnavailable(
            f"cannot create topic {topic} on Kafka at {bootstrap}: {error}. "
            "Check the address, and that topics may be created."
        ) from error
    try:
        yield bootstrap
    finally:
        admin.delete_topics([topic], operation_timeout=_TIMEOUT_S)[topic].result(timeout=_TIMEOUT_S)


@contextmanager
def _redis(url: str | None, prefix: str) -> Iterator[tuple[str, Callable[[], str | None]]]:
    if url is None:
        with EmbeddedRedis() as embedded:
            yield embedded.url, lambda: _mended(embedded)
        return
    try:
        named = connect_sync(RedisSettings(url=url, timeout_s=_TIMEOUT_S))
    except ValueError:  # it may quote the URL, and that may carry a password
        raise ServerUnavailable("the address given for Redis is none; try redis://host:port/0") from None
    with named as client:
        try:
            client.ping()
        except RedisError as error:
            # The URL may carry a password: it is not repeated.
            raise ServerUnavailable(f"the Redis given does not answer: {error}") from error
        try:
            yield url, lambda: None
        finally:
            for key in client.scan_iter(match=f"{prefix}:*", count=1000):
                client.delete(key)


def _mended(embedded: EmbeddedRedis) -> str | None:
    if embedded.alive:
        return None
    embedded.restart()
    return "Redis had died; it was started again with its data"
