"""The real Apache Kafka without Docker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from services.embedded import apache
from services.embedded.apache import ApacheKafka
from services.embedded.errors import EmbeddedError, NotRunning, StartFailed
from tests.embedded import needs
from tests.embedded.owner import assert_nothing_remains, gone, owning
from tests.waiting import eventually


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[ApacheKafka]:
    with ApacheKafka(brokers=3) as running:
        yield running


def produce(kafka: ApacheKafka, topic: str, count: int) -> None:
    """Spread over all partitions, each record acknowledged by every replica in sync."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 2, "acks": "all"})
    for number in range(count):
        producer.produce(topic, value=str(number).encode(), partition=number % 3)
    assert producer.flush(60) == 0


def live_brokers(kafka: ApacheKafka) -> set[int]:
    return set(kafka.admin().list_topics(timeout=10).brokers)


@needs.apache
@pytest.mark.timeout(300)
def test_two_brokers_serve_while_the_third_is_dead_and_it_comes_back(three_brokers: ApacheKafka) -> None:
    three_brokers.create_topic("spread", 3, config={"min.insync.replicas": "2"})
    produce(three_brokers, "spread", 30)
    assert live_brokers(three_brokers) == {1, 2, 3}

    three_brokers.kill_broker(2)
    assert three_brokers.dead_brokers() == (2,)
    produce(three_brokers, "spread", 30)
    eventually(lambda: live_brokers(three_brokers) == {1, 3}, within_s=60, what="broker 2 known to be dead")

    three_brokers.start_broker(2)
    assert live_brokers(three_brokers) == {1, 2, 3}
    produce(three_brokers, "spread", 30)
    log = (three_brokers.directory / "broker-2" / "server.log").read_text(encoding="utf-8")
    assert log.count("Formatting") == 1, "what is formatted is not formatted again"


@needs.apache
@pytest.mark.timeout(300)
def test_topics_take_settings_and_are_not_created_by_mention(three_brokers: ApacheKafka) -> None:
    three_brokers.create_topic("compacted", 1, config={"cleanup.policy": "compact"})
    admin = three_brokers.admin()

    admin.list_topics("mentioned", timeout=10)

    assert "mentioned" not in admin.list_topics(timeout=10).topics
    with pytest.raises(EmbeddedError, match=r"topic compacted could not be created: .*already exists"):
        three_brokers.create_topic("compacted", 1)


@needs.apache
@pytest.mark.timeout(300)
def test_a_killed_owner_leaves_nothing() -> None:
    script = """
        from services.embedded.apache import ApacheKafka
        kafka = ApacheKafka()
        kafka.start()
        port = int(kafka.bootstrap.rpartition(":")[2])
        tell(pids=[kafka.pid(1)], ports=[port], directory=str(kafka.directory))
    """
    with owning(script) as (owner, facts):
        assert Path(facts["directory"]).exists()
        assert not gone(facts["pids"][0])

        owner.kill()

        assert_nothing_remains(facts)


@needs.apache
def test_a_broker_that_cannot_start_shows_its_last_words() -> None:
    broken = ApacheKafka(settings={"log.dirs": "/proc/nowhere"})

    with pytest.raises(StartFailed, match=r"broker 1 ended with exit code 1 at start\n  \| "):
        broken.start()
    with pytest.raises(NotRunning, match="was not started"):
        _ = broken.bootstrap


@pytest.mark.parametrize("brokers", [0, 2, 5])
def test_only_one_or_three_brokers_make_a_cluster(brokers: int) -> None:
    with pytest.raises(ValueError, match=f"1 or 3 brokers can be started, not {brokers}"):
        ApacheKafka(brokers=brokers)


def test_other_ports_are_tried_when_a_free_one_was_snatched(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def start(self: ApacheKafka, java: Path, libs: Path) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise StartFailed("broker 1 ended", log="java.net.BindException: Address already in use")

    monkeypatch.setattr(ApacheKafka, "_start_on_free_ports", start)
    monkeypatch.setattr(apache, "require_java", lambda: Path("java"))
    monkeypatch.setattr(apache, "fetch_jars", lambda: Path("jars"))
    ApacheKafka().start()

    assert len(tries) == 3
