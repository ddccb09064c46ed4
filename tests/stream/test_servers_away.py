"""Servers that go away and come back, empty or not: training goes on, and it is told once."""

from __future__ import annotations

import os
import signal
from threading import Event

import pytest
from redis import Redis
from structlog.testing import capture_logs

from services.embedded.apache import ApacheKafka
from services.embedded.librdkafka import EmbeddedKafka
from services.embedded.redis import EmbeddedRedis
from services.settings import Settings
from services.stream.errors import SourceMissing, SourceUnavailable
from services.stream.sdk import stream
from tests.servers.kafka import KafkaUnderTest, lacking
from tests.stream.streams import (
    JOB,
    committed,
    leases_out,
    produce,
    progress_of,
    settings_for,
    trained_all,
    training,
)
from tests.waiting import eventually


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


def test_a_broker_that_dies_and_comes_back_costs_no_sample(redis_url: str, group: str) -> None:
    reason = lacking("apache")
    if reason is not None:
        pytest.skip(f"needs a real Kafka broker: {reason}")
    # A broker that comes back waits until the one it was is forgotten: 9 s unless told.
    quick = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
    with ApacheKafka(settings=quick) as kafka:
        kafka.create_topic("clicks", 2)
        settings = impatient(settings_for(kafka.bootstrap, redis_url, "clicks", group), timeout_s=1.5)
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


def test_a_topic_that_is_not_there_is_named(kafka: KafkaUnderTest, redis_url: str, group: str) -> None:
    settings = settings_for(kafka.bootstrap, redis_url, "no-such-topic", group)

    with (
        pytest.raises(SourceMissing, match="no-such-topic"),
        stream(settings, JOB, worker="a", connect_s=0.0),
    ):
        pass


def test_kafka_that_never_answers_is_named(redis_url: str, group: str) -> None:
    settings = impatient(settings_for("127.0.0.1:1", redis_url, "clicks", group), timeout_s=0.5)

    with (
        pytest.raises(SourceUnavailable, match=r"127\.0\.0\.1:1"),
        stream(settings, JOB, worker="a", connect_s=0.0),
    ):
        pass


def impatient(settings: Settings, *, timeout_s: float) -> Settings:
    """The same, with less patience for Kafka: requests to a dead broker are not worth the wait."""
    return settings.model_copy(update={"kafka": settings.kafka.model_copy(update={"timeout_s": timeout_s})})


def committed_all(settings: Settings, offsets: dict[int, int]) -> None:
    eventually(
        lambda: committed(settings, len(offsets)) == offsets, within_s=60, every_s=1.0, what="the commit"
    )
