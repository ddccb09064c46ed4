"""The cluster inside librdkafka, and what our code may rely on in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from services.embedded.errors import EmbeddedError, NotInstalled, NotRunning
from services.embedded.librdkafka import EmbeddedKafka, find_library
from services.embedded.ports import is_free
from tests.embedded.owner import ROOT, assert_nothing_remains, owning
from tests.waiting import eventually

EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3) as running:
        yield running


def produce(bootstrap: str, topic: str, values: list[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value=value, partition=partition)
        producer.poll(0)
    assert producer.flush(30) == 0


def offset(bootstrap: str, topic: str, spec: OffsetSpec, partition: int = 0) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    wanted = TopicPartition(topic, partition)
    return int(admin.list_offsets({wanted: spec}, request_timeout=20)[wanted].result().offset)


def test_end_offsets_count_what_was_produced(cluster: EmbeddedKafka) -> None:
    cluster.create_topic("counted", 2)

    produce(cluster.bootstrap, "counted", [b"x"] * 10, partition=1)

    assert offset(cluster.bootstrap, "counted", LATEST, 0) == 0
    assert offset(cluster.bootstrap, "counted", LATEST, 1) == 10


def test_listing_all_topics_creates_none(cluster: EmbeddedKafka) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    before = set(admin.list_topics(timeout=10).topics)

    assert "never-mentioned" not in before
    assert set(admin.list_topics(timeout=10).topics) == before


def test_asking_for_one_topic_creates_it(cluster: EmbeddedKafka) -> None:
    """Why existence is asked by listing: were this to change, that rule could go."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.list_topics("mentioned", timeout=10)

    topics = eventually(
        lambda: found if "mentioned" in (found := admin.list_topics(timeout=10).topics) else None,
        what="the topic mentioned",
    )
    assert topics is not None
    assert len(topics["mentioned"].partitions) == 4


def test_a_group_without_members_keeps_its_offsets(cluster: EmbeddedKafka, group: str) -> None:
    cluster.create_topic("committed", 2)
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.commit(offsets=[TopicPartition("committed", 0, 7)], asynchronous=False)
    consumer.close()

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    request = ConsumerGroupTopicPartitions(
        group, [TopicPartition("committed", 0), TopicPartition("committed", 1)]
    )
    told = admin.list_consumer_group_offsets([request])[group].result(20)
    assert [each.offset for each in told.topic_partitions] == [7, -1001]


def test_a_full_partition_drops_its_oldest_records_without_a_word(cluster: EmbeddedKafka) -> None:
    cluster.create_topic("full", 1)

    produce(cluster.bootstrap, "full", [b"x" * 100_000] * 100)

    assert offset(cluster.bootstrap, "full", LATEST) == 100
    assert 0 < offset(cluster.bootstrap, "full", EARLIEST) < 100


def test_the_others_serve_while_a_broker_is_down() -> None:
    with EmbeddedKafka(brokers=3) as cluster:
        cluster.create_topic("spread", 3)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        leaders = {
            number: part.leader
            for number, part in admin.list_topics(timeout=10).topics["spread"].partitions.items()
        }
        cluster.set_broker_down(1)
        for partition in (number for number, leader in leaders.items() if leader != 1):
            produce(cluster.bootstrap, "spread", [b"x"], partition=partition)

        cluster.set_broker_up(1)
        for partition in (number for number, leader in leaders.items() if leader == 1):
            produce(cluster.bootstrap, "spread", [b"x"], partition=partition)


def test_a_topic_is_created_once(cluster: EmbeddedKafka) -> None:
    cluster.create_topic("twice", 1)

    with pytest.raises(EmbeddedError, match="topic twice exists already"):
        cluster.create_topic("twice", 1)


@pytest.mark.parametrize(("partitions", "replication"), [(0, 1), (-1, 1), (1, 0), (1, 4)])
def test_an_impossible_topic_is_refused(cluster: EmbeddedKafka, partitions: int, replication: int) -> None:
    with pytest.raises(EmbeddedError, match="topic odd cannot have"):
        cluster.create_topic("odd", partitions, replication=replication)


def test_a_broker_that_is_not_there_cannot_go_down(cluster: EmbeddedKafka) -> None:
    with pytest.raises(EmbeddedError, match="take broker 9 down"):
        cluster.set_broker_down(9)


def test_a_cluster_needs_a_broker() -> None:
    with pytest.raises(ValueError, match="at least one broker, not 0"):
        EmbeddedKafka(brokers=0)


def test_stopping_closes_the_ports_and_may_be_repeated() -> None:
    cluster = EmbeddedKafka(brokers=2)
    cluster.start()
    cluster.start()
    ports = [int(address.rpartition(":")[2]) for address in cluster.bootstrap.split(",")]

    cluster.stop()
    cluster.stop()

    assert_nothing_remains({"ports": ports})
    with pytest.raises(NotRunning, match="was not started"):
        _ = cluster.bootstrap


def test_it_can_be_started_again_and_begins_empty() -> None:
    cluster = EmbeddedKafka()
    for _ in range(3):
        with cluster:
            assert AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=10).topics == {}
            cluster.create_topic("again", 1)


def test_a_killed_owner_leaves_no_port() -> None:
    script = """
        from services.embedded.librdkafka import EmbeddedKafka
        cluster = EmbeddedKafka(brokers=2)
        cluster.start()
        tell(ports=[int(address.rpartition(":")[2]) for address in cluster.bootstrap.split(",")])
    """
    with owning(script) as (owner, facts):
        assert not is_free(facts["ports"][0])

        owner.kill()

        assert_nothing_remains(facts)


def test_it_prints_nothing() -> None:
    script = """
from services.embedded.librdkafka import EmbeddedKafka
with EmbeddedKafka(brokers=2) as kafka:
    kafka.create_topic("clicks", 1)
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, cwd=ROOT, timeout=60, check=True
    )

    assert (run.stdout, run.stderr) == (b"", b"")


def test_a_library_that_did_not_come_in_a_wheel_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Spec:
        origin = str(tmp_path / "confluent_kafka" / "__init__.py")

    monkeypatch.setattr("importlib.util.find_spec", lambda _name: Spec)
    with pytest.raises(NotInstalled, match="was not installed from a wheel"):
        find_library()
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(NotInstalled, match="pip install confluent-kafka"):
        find_library()


_SIGNALLED = """
import ctypes, os, signal
from confluent_kafka.admin import AdminClient
from services.embedded.librdkafka import EmbeddedKafka

signal.signal(signal.SIGUSR1, lambda *_: None)
with EmbeddedKafka() as kafka:
    for thread in os.listdir("/proc/self/task"):
        ctypes.CDLL(None).tgkill(os.getpid(), int(thread), signal.SIGUSR1)
    print(len(AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).brokers))
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="tells threads apart by /proc")
def test_a_signal_to_any_thread_leaves_the_brokers_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SIGNALLED], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stdout.strip() == "1", done.stderr
