"""What may happen to servers and topics while worker processes train from a real broker and Redis.

At the end of each: every sample that Kafka still had was trained, repeats are within the promise, and
the watermark is where Kafka's partitions end.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined] # not in its __all__
from redis import Redis

from services.embedded.apache import ApacheKafka
from services.embedded.redis import EmbeddedRedis
from services.settings import Settings
from services.stream.range_reader import RangeReader
from services.stream.topic import Topic
from shuffler.lease import Lease
from tests.servers.kafka import KafkaUnderTest, lacking
from tests.stream.crews import Crew, at_work, every_sample
from tests.stream.streams import (
    JOB,
    Traffic,
    committed,
    delete_below,
    impatient,
    name_active,
    opened,
    produce,
    progress_of,
    settings_for,
)
from tests.waiting import eventually

WEIGHTS = (5, 2, 1)


def under_way(crew: Crew, settings: Settings, *, partitions: int = len(WEIGHTS)) -> dict[int, int]:
    """What the group has committed, once everybody trains and every partition has a commit."""
    for worker in crew.processes:
        crew.wait_until_training(worker)
    eventually(lambda: min(committed(settings, partitions).values()) > 0, every_s=0.3, what="a commit")
    return committed(settings, partitions)


def goes_on(settings: Settings, *, samples: int = 500) -> None:
    """Until so many more are trained."""
    before = opened(settings).trained
    eventually(lambda: progress_of(settings).trained > before + samples, within_s=60, what="training goes on")


def test_redis_is_emptied(kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path) -> None:
    topic = kafka.new_topic(len(WEIGHTS))
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    with at_work(settings, tmp_path) as crew:
        with Traffic(kafka.bootstrap, topic, weights=WEIGHTS, rate_per_s=1_000) as traffic:
            commits = under_way(crew, settings)
            epoch = progress_of(settings).epoch
            with Redis.from_url(redis_url) as client:
                client.flushdb()
            goes_on(settings)
        progress = crew.finish(every_sample(traffic.counts))

    assert progress.epoch > epoch
    assert set(crew.trained().values()) <= {1, 2}
    assert all(offset >= commits[p] for p, offset in crew.repeated()), "repeated from before the commit"


def test_redis_dies_and_comes_back(kafka: KafkaUnderTest, group: str, tmp_path: Path) -> None:
    topic = kafka.new_topic(len(WEIGHTS))
    with EmbeddedRedis() as redis:
        settings = settings_for(kafka.bootstrap, redis.url, topic, group, shuffle={"lease_ttl_s": 2.0})
        with at_work(settings, tmp_path) as crew:
            with Traffic(kafka.bootstrap, topic, weights=WEIGHTS, rate_per_s=1_000) as traffic:
                under_way(crew, settings)
                os.kill(redis.process.pid, signal.SIGKILL)
                eventually(lambda: not redis.alive, what="Redis is gone")
                redis.restart()
                goes_on(settings)
            progress = crew.finish(every_sample(traffic.counts))

    assert set(crew.trained().values()) == {1}, "nobody's lease lapses for one time-to-live"
    assert progress.repeated == 0


def test_the_broker_dies_and_comes_back(redis_url: str, group: str, tmp_path: Path) -> None:
    reason = lacking("apache")
    if reason is not None:
        pytest.skip(f"needs a real Kafka broker: {reason}")
    # A broker that comes back waits until the one it was is forgotten: 9 s unless told.
    quick = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
    with ApacheKafka(settings=quick) as kafka:
        kafka.create_topic("clicks", len(WEIGHTS))
        settings = impatient(settings_for(kafka.bootstrap, redis_url, "clicks", group), timeout_s=1.5)
        with at_work(settings, tmp_path) as crew:
            with Traffic(kafka.bootstrap, "clicks", weights=WEIGHTS, rate_per_s=1_000) as traffic:
                # A broker killed while it makes the topic of commits is long in making it again.
                under_way(crew, settings)
                kafka.kill_broker(1)
                kafka.start_broker(1)
                goes_on(settings)
            progress = crew.finish(every_sample(traffic.counts))

    assert set(crew.trained().values()) == {1}
    assert progress.repeated == 0


def test_the_controller_is_away_and_a_worker_that_it_named_dies(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    topic = kafka.new_topic(len(WEIGHTS))
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle={"lease_ttl_s": 1.5})
    name_active(settings, "w1", "w2")  # the controller's last word
    a_minute = {"services.store.reports.LEADERLESS_S": 3.0}
    with at_work(settings, tmp_path, constants=a_minute) as crew:
        with Traffic(kafka.bootstrap, topic, weights=WEIGHTS, rate_per_s=1_000) as traffic:
            under_way(crew, settings)
            standby = crew.hire()
            goes_on(settings)
            crew.freeze_mid_lease("w1")
            crew.kill("w1")
            crew.wait_until_training(standby)
        progress = crew.finish(every_sample(traffic.counts))

    repeats = sum(crew.trained().values()) - progress.trained
    assert progress.trained == sum(traffic.counts.values())
    assert repeats <= progress.repeated
    assert progress.repeated > 0, "the lease of the dead came back"


@pytest.mark.real_broker
def test_the_topic_gets_more_partitions(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    topic = kafka.new_topic(len(WEIGHTS))
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    soon = {"services.stream.frontier._LOOK_FOR_PARTITIONS_S": 0.2}
    admin = kafka.admin()
    with at_work(settings, tmp_path, constants=soon) as crew:
        with Traffic(kafka.bootstrap, topic, weights=WEIGHTS, rate_per_s=1_000) as traffic:
            under_way(crew, settings)
            admin.create_partitions([NewPartitions(topic, 5)])[topic].result()
            eventually(
                lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 5, what="five"
            )
            produce(kafka.bootstrap, topic, {3: 300, 4: 40})
            eventually(lambda: progress_of(settings).watermarks.get(4) == 40, within_s=60, what="the new")
        progress = crew.finish(every_sample({**traffic.counts, 3: 300, 4: 40}))

    assert set(crew.trained().values()) == {1}
    assert progress.repeated == 0


@pytest.mark.real_broker
def test_the_topic_is_deleted_and_made_anew(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    produce(kafka.bootstrap, topic, {0: 1_000})
    admin = kafka.admin()
    with at_work(settings, tmp_path, constants={"services.stream.committer._LOOK_FOR_TOPIC_S": 0.2}) as crew:
        eventually(lambda: opened(settings).watermarks == {0: 1_000}, within_s=60, what="all of the old")
        eventually(lambda: progress_of(settings).topic_id, what="the topic's id is known")
        epoch = progress_of(settings).epoch
        admin.delete_topics([topic])[topic].result()
        eventually(lambda: topic not in admin.list_topics(timeout=10).topics, what="the topic is gone")
        kafka.create_topic(topic, 1)
        produce(kafka.bootstrap, topic, {0: 600})
        eventually(lambda: progress_of(settings).epoch > epoch, within_s=60, what="it is noticed")
        progress = crew.finish(every_sample({0: 600}))

    # Both topics have offsets from 0 on: those of the new one were trained a second time.
    assert crew.trained() == {(0, offset): 1 + (offset < 600) for offset in range(1_000)}
    assert progress.trained == 1_600


@pytest.mark.real_broker
def test_records_are_deleted_below_the_watermark_and_inside_a_lease(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(
        *(kafka.bootstrap, redis_url, topic, group),
        shuffle={"lease_s": 15.0, "lease_ttl_s": 60.0},
        pool={"drain_s": 62.0},
    )
    produce(kafka.bootstrap, topic, {0: 40_000})
    with at_work(settings, tmp_path, workers=1) as crew:
        eventually(lambda: opened(settings).watermarks[0] > 0, what="something is trained")
        delete_below(kafka, topic, offset=progress_of(settings).watermarks[0])
        eventually(lambda: progress_of(settings).out > 20_000, within_s=60, what="a long lease is out")
        crew.signal("w1", signal.SIGSTOP)
        delete_below(kafka, topic, offset=38_000)
        crew.signal("w1", signal.SIGCONT)
        eventually(lambda: progress_of(settings).watermarks == {0: 40_000}, within_s=60, what="the end")
        reached = max(offset for _, offset in crew.trained() if offset < 38_000) + 1
        kept = every_sample({0: reached}) | {(0, offset) for offset in range(38_000, 40_000)}
        progress = crew.finish(kept, lost=38_000 - reached)

    assert reached < 38_000
    assert crew.trained() == dict.fromkeys(kept, 1)
    assert progress.trained == len(kept)


@pytest.mark.real_broker
def test_transactions_come_and_some_are_aborted(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, worker={"batch": 7})
    with at_work(settings, tmp_path) as crew:
        kept = in_transactions(kafka.bootstrap, topic, f"{group}-writer", count=30)
        progress = crew.finish(kept)

    assert crew.trained() == dict.fromkeys(kept, 1), "an aborted sample was trained, or one twice"
    assert progress.trained == len(kept)


@pytest.mark.real_broker
def test_the_topic_is_compacted(kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path) -> None:
    compact = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "100",
    }
    topic = kafka.new_topic(1, compact)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, worker={"batch": 7})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 2})
    for number in range(400):
        producer.produce(topic, key=str(number % 5).encode(), value=b"old", partition=0)
    producer.flush()

    def holes() -> bool:
        """Writes once more, which rolls the segment, and looks whether offsets are missing by now."""
        producer.produce(topic, key=b"new", value=b"new", partition=0)
        producer.flush()
        there, end = still_there(settings)
        return end - len(there) > 50

    eventually(holes, within_s=60, every_s=0.2, what="compaction")
    with at_work(settings, tmp_path) as crew:
        eventually(lambda: opened(settings).watermarks[0] >= 400, within_s=60, what="the end")
        there, end = still_there(settings)  # what is compacted away later may have been trained
        progress = crew.finish(there)

    assert set(crew.trained().values()) == {1}
    assert progress.trained < end, "nothing was compacted away"


def in_transactions(bootstrap: str, topic: str, name: str, *, count: int) -> set[tuple[int, int]]:
    """Send transactions of ten samples, every third of them aborted; where the others are."""
    kept: set[tuple[int, int]] = set()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 2})
    producer.init_transactions(30)
    for number in range(count):
        sent: list[tuple[int, int]] = []

        def note(error: KafkaError | None, message: Message, sent: list[tuple[int, int]] = sent) -> None:
            assert error is None
            sent.append((message.partition() or 0, message.offset() or 0))

        producer.begin_transaction()
        for _ in range(10):
            producer.produce(topic, b"sample", partition=0, on_delivery=note)
        producer.flush()
        if number % 3:
            producer.commit_transaction(30)
            kept |= set(sent)
        else:
            producer.abort_transaction(30)
    assert len(kept) == 10 * (count - (count + 2) // 3)
    return kept


def still_there(settings: Settings) -> tuple[set[tuple[int, int]], int]:
    """The samples that partition 0 has now, and its end."""
    job = settings.jobs[JOB]
    topic = Topic(settings.kafka, job.topic, f"{job.group_of(JOB)}-looking")
    try:
        end = topic.ends([0])[0]
        reader = RangeReader(topic.consumer, topic.name)
        reader.begin(Lease(0, 0, end, "looking", 1, 1, 0.0))
        found: set[tuple[int, int]] = set()
        while not reader.exhausted:
            found |= {(0, record.offset() or 0) for record in reader.read(1_000, timeout_s=0.2)}
        reader.end()
        return found, end
    finally:
        topic.close()
