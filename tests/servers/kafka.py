"""The Kafka that the tests use: which one, why, and how to get it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from tests.servers import docker
from tests.waiting import eventually

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

Kind = Literal["embedded", "apache", "container", "given"]

KINDS: tuple[Kind, ...] = ("embedded", "apache", "container")
ADDRESS_VARIABLE = "PENSTOCK_TEST_KAFKA"
IMAGE_VARIABLE = "PENSTOCK_TEST_KAFKA_IMAGE"
IMAGE_DEFAULT = "apache/kafka:4.1.1"


class TopicFactory(Protocol):
    """Makes topics that nobody else uses; gives their names."""

    def __call__(self, partitions: int = 4, config: Mapping[str, str] | None = None) -> str: ...


class CreateTopic(Protocol):
    """How one kind of server makes a topic."""

    def __call__(self, name: str, partitions: int, config: Mapping[str, str] | None, /) -> None: ...


@dataclass(frozen=True)
class KafkaUnderTest:
    """A running Kafka. Every service under test sees only its `bootstrap`."""

    kind: Kind
    bootstrap: str
    _create: CreateTopic

    @property
    def is_real(self) -> bool:
        """Whether an Apache Kafka answers, not librdkafka's cluster."""
        return self.kind != "embedded"

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create a topic. Only a real broker takes a `config`: mark such tests `real_broker`."""
        self._create(name, partitions, config)

    def new_topic(self, partitions: int = 4, config: Mapping[str, str] | None = None) -> str:
        """A new topic that nobody else uses; its name."""
        name = unique_name("topic")
        self.create_topic(name, partitions, config)
        return name

    def admin(self) -> AdminClient:
        """A client for administration. Hold it until its futures are done."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})


@dataclass(frozen=True)
class KafkaChoice:
    """Which Kafka the `kafka` fixture uses, and why; decided before anything is started."""

    kind: Kind
    why: str
    address: str = ""

    def __str__(self) -> str:
        return f"{self.kind}{f' {self.address}' if self.address else ''} ({self.why})"


class Kafkas:
    """Starts each kind of Kafka at most once, when first asked for; ends them with the session."""

    def __init__(self, stack: ExitStack, shared: Path) -> None:
        """`shared` is a directory that all workers of the run see."""
        self._stack = stack
        self._shared = shared
        self._running: dict[str, KafkaUnderTest] = {}

    def get(self, kind: Kind, address: str = "") -> KafkaUnderTest:
        """A running Kafka of this kind. What it lacks is to be asked of `lacking` before."""
        if kind not in self._running:
            start = self._starts()[kind] if kind != "given" else _given(address)
            self._running[kind] = start(self._stack)
        return self._running[kind]

    def _starts(self) -> dict[Kind, Callable[[ExitStack], KafkaUnderTest]]:
        return {
            "embedded": _start_embedded,
            "apache": partial(_start_apache, shared=self._shared),
            "container": _start_container,
        }


def unique_name(what: str) -> str:
    """A name that no other test, and no earlier run on the same server, has used.

    >>> unique_name("topic") == unique_name("topic")
    False
    """
    return f"{what}-{uuid.uuid4().hex[:12]}"


def choose_kafka(option: str | None) -> KafkaChoice:
    """What `--kafka` says; else the first at hand: address given, Apache, container, embedded.

    Raises ValueError, with the remedy, when what was asked for cannot be had.
    """
    for by, wanted in (("--kafka", option), (ADDRESS_VARIABLE, os.environ.get(ADDRESS_VARIABLE))):
        if wanted:
            return _asked(wanted, by)
    for kind in ("apache", "container"):
        if lacking(kind) is None:
            return KafkaChoice(kind, "the first at hand; choose with --kafka")
    return KafkaChoice("embedded", f"no real broker at hand: {lacking('apache')}")


def _asked(option: str, by: str) -> KafkaChoice:
    for kind in KINDS:
        if option == kind:
            reason = lacking(kind)
            if reason is not None:
                raise ValueError(f"{by}={option}: {reason}")
            return KafkaChoice(kind, f"by {by}")
    if ":" in option:
        return KafkaChoice("given", f"by {by}", address=option)
    raise ValueError(f"{by}={option}: give {', '.join(KINDS)} or HOST:PORT")


@cache
def lacking(kind: Kind) -> str | None:
    """What to install before this kind can be used on this machine; None when nothing is missing."""
    if kind == "apache":
        from services.embedded.jars import missing

        return missing()
    if kind == "container":
        return docker.lacking(kafka_image())
    return None


def kafka_image() -> str:
    return os.environ.get(IMAGE_VARIABLE) or IMAGE_DEFAULT


def _start_embedded(stack: ExitStack) -> KafkaUnderTest:
    from services.embedded.librdkafka import EmbeddedKafka

    server = stack.enter_context(EmbeddedKafka(brokers=1))

    def create(name: str, partitions: int, config: Mapping[str, str] | None) -> None:
        if config:
            raise ValueError("the embedded Kafka has no topic settings; mark the test real_broker")
        server.create_topic(name, partitions)

    return KafkaUnderTest("embedded", server.bootstrap, create)


def _start_apache(stack: ExitStack, *, shared: Path) -> KafkaUnderTest:
    from tests.servers.shared import shared_apache

    bootstrap = stack.enter_context(shared_apache(shared))
    return KafkaUnderTest("apache", bootstrap, _create_with_admin(bootstrap))


def _start_container(stack: ExitStack) -> KafkaUnderTest:
    bootstrap = stack.enter_context(docker.kafka_container(kafka_image()))
    return KafkaUnderTest("container", bootstrap, _create_with_admin(bootstrap))


def _given(address: str) -> Callable[[ExitStack], KafkaUnderTest]:
    def connect(_stack: ExitStack) -> KafkaUnderTest:
        from confluent_kafka import KafkaException

        server = KafkaUnderTest("given", address, _create_with_admin(address))
        try:
            server.admin().list_topics(timeout=10)
        except KafkaException as error:
            raise ConnectionError(
                f"no Kafka answers at {address}; start it, or choose with --kafka"
            ) from error
        return server

    return connect


def _create_with_admin(bootstrap: str) -> CreateTopic:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def create(name: str, partitions: int, config: Mapping[str, str] | None) -> None:
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin.create_topics([topic], operation_timeout=30, request_timeout=30)[name].result()
        # The controller has said yes; the broker hears of it, and begins to lead, a moment later.
        eventually(lambda: _led(admin, name) == partitions, within_s=60, what=f"topic {name}")

    return create


def _led(admin: AdminClient, topic: str) -> int:
    """How many partitions answer for their offsets."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

    found = admin.list_topics(timeout=10).topics.get(topic)
    wanted = (
        {} if found is None else {TopicPartition(topic, p): OffsetSpec.latest() for p in found.partitions}  # type: ignore[no-untyped-call]
    )
    if not wanted:
        return 0
    answers = admin.list_offsets(wanted, request_timeout=10).values()
    return sum(answer.exception(timeout=15) is None for answer in answers)
