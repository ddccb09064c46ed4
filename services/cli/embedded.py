"""`penstock embedded`: a Kafka and a Redis to poke at with any client."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from services.embedded.apache import KAFKA_VERSION, ApacheKafka
from services.embedded.errors import EmbeddedError
from services.embedded.librdkafka import EmbeddedKafka
from services.embedded.redis import EmbeddedRedis

_LOOK_EVERY_S = 0.5
_TOPIC = re.compile(r"(?P<name>[A-Za-z0-9._-]{1,249}):(?P<partitions>[1-9][0-9]{0,4})")


class KafkaKind(StrEnum):
    """Where the Kafka comes from."""

    LIBRDKAFKA = "librdkafka"
    APACHE = "apache"


def embedded(
    *,
    kafka: Annotated[
        KafkaKind,
        typer.Option(
            help="librdkafka: at once, Python only, in memory. apache: the real broker; needs Java 17."
        ),
    ] = KafkaKind.LIBRDKAFKA,
    brokers: Annotated[int, typer.Option(min=1, help="How many brokers; for apache 1 or 3.")] = 1,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:PARTITIONS", help="A topic to create. May be given several times."),
    ] = None,
    redis: Annotated[bool, typer.Option(help="Start a Redis too.")] = True,
    redis_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port of the Redis; a free one when not given.")
    ] = None,
) -> None:
    """Start a Kafka and a Redis on this machine, print their addresses, and stay up until Ctrl-C.

    The addresses come on standard output, one per line: `kafka=HOST:PORT[,...]` and `redis=URL`.
    Everything ends with this command, however it ends, and leaves nothing behind. A server that
    dies meanwhile is started again. The data are lost at the end.

    The librdkafka brokers keep about 5 MiB a partition and then drop the oldest records; they know
    no offsets by time and no transactions worth the name. Use apache where that matters.
    """
    topics = _parse_topics(topic or [])
    if kafka is KafkaKind.APACHE and brokers not in (1, 3):
        raise typer.BadParameter(f"apache runs with 1 or 3 brokers, not {brokers}", param_hint="--brokers")
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell started this with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    try:
        with _servers(kafka, brokers, topics, redis=redis, redis_port=redis_port) as started:
            _stay_up(started)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
    except EmbeddedError as error:
        typer.echo(f"penstock embedded: {error}", err=True)
        raise typer.Exit(1) from error


Servers = tuple[EmbeddedKafka | ApacheKafka, EmbeddedRedis | None]


@contextmanager
def _servers(
    kind: KafkaKind, brokers: int, topics: Mapping[str, int], *, redis: bool, redis_port: int | None
) -> Iterator[Servers]:
    """Start what was asked for and print where it is."""
    with ExitStack() as stack:
        redis_server = stack.enter_context(EmbeddedRedis(port=redis_port)) if redis else None
        kafka_server: EmbeddedKafka | ApacheKafka
        if kind is KafkaKind.APACHE:
            typer.echo(
                f"starting Apache Kafka {KAFKA_VERSION}; the first time fetches 43 MB with Maven", err=True
            )
            kafka_server = stack.enter_context(ApacheKafka(brokers=brokers))
        else:
            kafka_server = stack.enter_context(EmbeddedKafka(brokers=brokers))
        for name, partitions in topics.items():
            kafka_server.create_topic(name, partitions)
        typer.echo(f"kafka={kafka_server.bootstrap}")
        if redis_server is not None:
            typer.echo(f"redis={redis_server.url}")
        typer.echo("up; Ctrl-C ends everything", err=True)
        yield kafka_server, redis_server


def _stay_up(servers: Servers) -> None:
    """Until a signal comes; replace what dies meanwhile."""
    kafka, redis = servers
    while True:
        time.sleep(_LOOK_EVERY_S)
        if redis is not None and not redis.alive:
            redis.restart()
            typer.echo("Redis had died; started again with its data", err=True)
        if isinstance(kafka, ApacheKafka):
            for broker in kafka.dead_brokers():
                kafka.start_broker(broker)
                typer.echo(f"Kafka broker {broker} had died; started again with its data", err=True)


def _parse_topics(given: Sequence[str]) -> dict[str, int]:
    """Names and partition counts. Raises BadParameter, naming the text that cannot be read.

    >>> _parse_topics(["clicks:8", "views:2"])
    {'clicks': 8, 'views': 2}
    """
    topics: dict[str, int] = {}
    for text in given:
        found = _TOPIC.fullmatch(text)
        if found is None:
            raise typer.BadParameter(
                f"{text!r}: want NAME:PARTITIONS such as clicks:8, with 1 to 99999 partitions "
                "and a name of letters, digits, '.', '_' and '-'",
                param_hint="--topic",
            )
        if found["name"] in topics:
            raise typer.BadParameter(f"{found['name']} is given twice", param_hint="--topic")
        topics[found["name"]] = int(found["partitions"])
    return topics


if __name__ == "__main__":
    typer.run(embedded)
