"""What a stream survives: Kafka's gaps and deletions, and servers that go away and come back."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined] # not in its __all__
from redis import Redis
from structlog.testing import capture_logs

from services.embedded.apache import ApacheKafka
from services.embedded.librdkafka import EmbeddedKafka
from services.embedded.redis import EmbeddedRedis
from services.settings import Settings
from services.store.keys import Keys
from services.stream.errors import GroupHasMembers, SourceMissing, SourceUnavailable
from services.stream.redis_ledger import RedisLedger
from services.stream.sdk import stream
from shuffler.ledger import Terms
from tests.servers.kafka import KafkaUnderTest, lacking
from tests.stream.streams import (
    JOB,
    Traffic,
    Trainee,
    committed,
    leases_out,
    produce,
    progress_of,
    settings_for,
    trained_all,
    training,
)
from tests.waiting import eventually


@pytest.mark.real_broker
def test_records_deleted_before_they_were_trained_are_counted_as_lost(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    produce(kafka.bootstrap, topic, {0: 10})
    with training(settings, "a"):
        trained_all(settings, 10)
    produce(kafka.bootstrap, topic, {0: 290})
    delete_below(kafka, topic, offset=150)

    with training(settings, "a"), capture_logs() as logs:
        progress = trained_all(settings, 300)

    assert (progress.trained, progress.lost) == (160, 140)
    assert progress.watermarks == {0: 300}
    assert [log["offsets"] for log in logs if log["event"] == "samples_lost"], "nobody was told"


@pytest.mark.real_broker
def test_records_deleted_inside_a_lease_are_counted_and_the_rest_is_trained(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(1)
    produce(kafka.bootstrap, topic, {0: 30_000})
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    somebody_opened_it_at(settings, start=0, end=30_000)
    holding, go_on = Event(), Event()

    def pause() -> None:
        holding.set()
        go_on.wait(60)

    with training(settings, "a", before_done=pause) as (worker,):
        assert holding.wait(30)
        delete_below(kafka, topic, offset=25_000)
        go_on.set()
        progress = trained_all(settings, 30_000)

    assert progress.lost > 0
    assert progress.trained == sum(worker.seen.values()) == len(worker.seen)
    assert {(0, offset) for offset in range(25_000, 30_000)} <= set(worker.seen)
    assert progress.watermarks == {0: 30_000}


def test_what_the_embedded_kafka_dropped_is_counted_as_lost(redis_url: str, group: str) -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("clicks", 1)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 2})
        for _ in range(80):
            producer.produce("clicks", b"x" * 100_000, partition=0)
        producer.flush()
        settings = settings_for(kafka.bootstrap, redis_url, "clicks", group, worker={"batch": 5})
        somebody_opened_it_at(settings, start=0, end=80)

        with training(settings, "a"):
            progress = trained_all(settings, 80)

    assert progress.lost > 0
    assert progress.watermarks == {0: 80}


@pytest.mark.real_broker
def test_aborted_and_unfinished_transactions_are_not_trained_and_leave_no_hole(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, worker={"batch": 7})
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{group}-writer", "log_level": 2}
    )
    producer.init_transactions(30)
    for number in range(12):
        producer.begin_transaction()
        for _ in range(10):
            producer.produce(topic, b"kept" if number % 3 else b"aborted", partition=0)
        if number % 3:
            producer.commit_transaction(30)
        else:
            producer.flush()
            producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", partition=0)
    producer.flush()

    with training(settings, "a") as (worker,):
        trained_all(settings, 80)
        stable_end = 12 * 11  # each transaction ends with a marker that takes an offset
        eventually(lambda: progress_of(settings).watermarks == {0: stable_end}, what="the stable end reached")
        producer.commit_transaction(30)
        end = stable_end + 2
        eventually(lambda: progress_of(settings).watermarks == {0: end}, what="the last marker passed")

    progress = progress_of(settings)
    assert (progress.trained, progress.lost) == (81, 0)
    assert sum(worker.seen.values()) == 81
    assert committed(settings, 1) == {0: end}


@pytest.mark.real_broker
def test_a_partition_that_appears_is_trained_from_its_beginning(
    kafka: KafkaUnderTest, redis_url: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.stream.frontier._LOOK_FOR_PARTITIONS_S", 0.2)
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle={"start": "latest"})
    produce(kafka.bootstrap, topic, {0: 20})

    with training(settings, "a"):
        trained_all(settings, 0)
        admin = kafka.admin()
        for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
            future.result()
        eventually(
            lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 2,
            what="2 partitions",
        )
        produce(kafka.bootstrap, topic, {1: 40})
        progress = trained_all(settings, 40)

    assert progress.watermarks == {0: 20, 1: 40}


def test_when_redis_loses_the_ledger_training_goes_on_from_the_commit(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle={"start": "latest"})
    # The job is not new: what it has committed counts, not `latest`.
    with training(settings, "early"):
        trained_all(settings, 0)
        produce(kafka.bootstrap, topic, {0: 100})
        trained_all(settings, 100)
    first_epoch = progress_of(settings).epoch

    with Redis.from_url(redis_url) as client:
        client.flushdb()
    produce(kafka.bootstrap, topic, {0: 50})
    with training(settings, "later"):
        progress = trained_all(settings, 50)

    assert progress.watermarks == {0: 150}
    assert progress.epoch > first_epoch


def test_a_ledger_lost_under_a_running_worker_is_opened_again(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(2)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)

    with training(settings, "a", "b") as crew:
        produce(kafka.bootstrap, topic, {0: 300, 1: 300})
        trained_all(settings, 600)
        eventually(lambda: committed(settings, 2) == {0: 300, 1: 300}, every_s=0.5, what="the commit")
        with Redis.from_url(redis_url) as client:
            client.flushdb()
        produce(kafka.bootstrap, topic, {0: 50, 1: 50})
        progress = trained_all(settings, 100)

    assert progress.watermarks == {0: 350, 1: 350}
    assert set(crew[0].seen) | set(crew[1].seen) == {(p, o) for p in range(2) for o in range(350)}


def test_while_redis_is_away_leased_work_is_finished_and_then_told(kafka: KafkaUnderTest, group: str) -> None:
    topic = kafka.new_topic(1)
    go_on, holding = Event(), Event()

    def pause() -> None:
        holding.set()
        go_on.wait(60)

    produce(kafka.bootstrap, topic, {0: 200})
    with EmbeddedRedis() as redis, capture_logs() as logs:
        settings = settings_for(kafka.bootstrap, redis.url, topic, group)
        with training(settings, "a", before_done=pause) as (worker,):
            assert holding.wait(30)
            eventually(lambda: leases_out(settings) == 2, what="the next lease is taken ahead")
            os.kill(redis.process.pid, signal.SIGKILL)
            eventually(lambda: not redis.alive, what="Redis is gone")
            go_on.set()
            eventually(lambda: len(worker.sizes) >= 2, what="what was leased is trained")
            eventually(lambda: any(log["event"] == "server_lost" for log in logs), what="the loss is told")
            redis.restart()
            progress = trained_all(settings, 200)

    assert progress.repeated == 0
    told = [log["event"] for log in logs if log.get("server") == "redis"]
    assert told == ["server_lost", "server_back"], "told once per change, not per retry"


def test_while_kafka_is_away_the_worker_waits_and_goes_on(redis_url: str, group: str) -> None:
    with EmbeddedKafka() as kafka, capture_logs() as logs:
        kafka.create_topic("clicks", 1)
        settings = settings_for(kafka.bootstrap, redis_url, "clicks", group)
        with training(settings, "a"):
            produce(kafka.bootstrap, "clicks", {0: 100})
            trained_all(settings, 100)
            kafka.set_broker_down(1)
            eventually(lambda: any(log.get("server") == "kafka" for log in logs), what="the loss is told")
            kafka.set_broker_up(1)
            produce(kafka.bootstrap, "clicks", {0: 100})
            trained_all(settings, 200)

    told = [log["event"] for log in logs if log.get("server") == "kafka"]
    assert told == ["server_lost", "server_back"]


@pytest.mark.real_broker
def test_a_job_does_not_start_while_its_group_has_members(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    with (
        membership(kafka, topic, group),
        pytest.raises(GroupHasMembers, match="1 live member"),
        stream(settings, JOB, worker="a", connect_s=0.0),
    ):
        pass


@pytest.mark.real_broker
def test_a_member_that_joins_later_stops_the_commits_not_the_training(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)

    with capture_logs() as logs, training(settings, "a"):
        trained_all(settings, 0)
        with membership(kafka, topic, group):
            produce(kafka.bootstrap, topic, {0: 100})
            trained_all(settings, 100)
            eventually(lambda: [log for log in logs if log.get("server") == "kafka group"], what="told")
        eventually(lambda: committed(settings, 1) == {0: 100}, what="the commit once the member is gone")

    told = [log for log in logs if log.get("server") == "kafka group"]
    assert [log["event"] for log in told] == ["server_lost", "server_back"]
    assert "a group of its own" in told[0]["error"]


def test_a_step_longer_than_the_time_to_live_loses_no_lease(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(1)
    produce(kafka.bootstrap, topic, {0: 100})
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle={"lease_ttl_s": 0.4})
    step_is_over = Event()

    with training(settings, "busy", before_done=lambda: step_is_over.wait(60)):
        # With a batch in its step and the next one read, it asks the ledger for nothing.
        eventually(lambda: leases_out(settings) == 2, what="everything is leased")
        with training(settings, "idle"):
            began_s = eventually(lambda: alive_until_s(settings, "idle"), what="the other looks for work")
            eventually(
                lambda: (alive_until_s(settings, "idle") or 0) > (began_s or 0) + 1.5,
                what="the other would have got what lapses",
            )
            step_is_over.set()
            progress = trained_all(settings, 100)

    assert progress.repeated == 0


def test_fifty_joins_and_leaves_lose_and_repeat_nothing(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    chance = random.Random(50)
    topic = kafka.new_topic(3)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle={"lease_s": 0.1})
    crew: list[Trainee] = []
    everybody: list[Trainee] = []
    with Traffic(kafka.bootstrap, topic, weights=(5, 3, 1), rate_per_s=2_000) as traffic:
        for number in range(50):
            if crew and chance.random() < 0.5:
                crew.pop(chance.randrange(len(crew))).leave()
                continue
            joining = Trainee(settings, f"w{number}", before_done=lambda: None)
            joining.start()
            crew.append(joining)
            everybody.append(joining)
            eventually(lambda: joining.seen or len(crew) > 1, what="work")  # noqa: B023
    last = Trainee(settings, "last")
    last.start()
    progress = trained_all(settings, sum(traffic.counts.values()))
    for trainee in (*crew, last):
        trainee.leave()

    seen = sum((trainee.seen for trainee in (*everybody, last)), Counter())
    assert seen == {(p, offset): 1 for p, count in traffic.counts.items() for offset in range(count)}
    assert progress.repeated == 0
    assert committed(settings, 3) == traffic.counts


def test_a_topic_that_is_not_there_is_named(kafka: KafkaUnderTest, redis_url: str, group: str) -> None:
    settings = settings_for(kafka.bootstrap, redis_url, "no-such-topic", group)

    with (
        pytest.raises(SourceMissing, match="no-such-topic"),
        stream(settings, JOB, worker="a", connect_s=0.0),
    ):
        pass


def test_kafka_that_never_answers_is_named(redis_url: str, group: str) -> None:
    settings = settings_for("127.0.0.1:1", redis_url, "clicks", group)
    settings = settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"timeout_s": 0.5})})

    with (
        pytest.raises(SourceUnavailable, match=r"127\.0\.0\.1:1"),
        stream(settings, JOB, worker="a", connect_s=0.0),
    ):
        pass


@contextmanager
def membership(kafka: KafkaUnderTest, topic: str, group: str) -> Iterator[Consumer]:
    """Somebody else's consumer, a member of the group until the end of the block."""
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group, "enable.auto.commit": False})
    member.subscribe([topic])
    try:
        eventually(
            lambda: member.poll(0.1) or member.assignment(), within_s=60, what="the group has a member"
        )
        yield member
    finally:
        member.close()


def delete_below(kafka: KafkaUnderTest, topic: str, *, offset: int) -> None:
    admin = kafka.admin()
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result()


def alive_until_s(settings: Settings, worker: str) -> float | None:
    """Until when the leases of a worker last; None before it was heard."""
    with Redis.from_url(settings.redis.url) as client:
        known = client.hgetall(Keys(settings.redis.prefix).ledger(JOB, "workers"))
    records = (record for holder, record in known.items() if holder.decode().startswith(f"{worker}."))
    return next((float(record.split()[0]) for record in records), None)


def ledger_of(settings: Settings, client: Redis) -> RedisLedger:
    return RedisLedger(client, Keys(settings.redis.prefix), JOB, Terms())


def somebody_opened_it_at(settings: Settings, *, start: int, end: int) -> None:
    with Redis.from_url(settings.redis.url) as client:
        ledger_of(settings, client).open({0: start})
        ledger_of(settings, client).extend({0: end})


def committed_all(settings: Settings, offsets: dict[int, int]) -> None:
    eventually(
        lambda: committed(settings, len(offsets)) == offsets, within_s=60, every_s=1.0, what="the commit"
    )


def test_a_broker_that_dies_and_comes_back_costs_no_sample(redis_url: str, group: str) -> None:
    reason = lacking("apache")
    if reason is not None:
        pytest.skip(f"needs a real Kafka broker: {reason}")
    with ApacheKafka() as kafka:
        kafka.create_topic("clicks", 2)
        settings = settings_for(kafka.bootstrap, redis_url, "clicks", group)
        produce(kafka.bootstrap, "clicks", {0: 500, 1: 500})
        with training(settings, "a", "b") as crew:
            trained_all(settings, 1_000)
            # A broker killed while it makes the topic of commits is long in making it again.
            committed_all(settings, {0: 500, 1: 500})
            kafka.kill_broker(1)
            kafka.start_broker(1)
            produce(kafka.bootstrap, "clicks", {0: 300, 1: 300})
            progress = trained_all(settings, 1_600)
            committed_all(settings, {0: 800, 1: 800})

    assert progress.watermarks == {0: 800, 1: 800}
    assert progress.lost == progress.repeated == 0
    assert crew[0].seen + crew[1].seen == {(p, offset): 1 for p in range(2) for offset in range(800)}
