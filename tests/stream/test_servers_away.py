"""Servers that go away and come back, empty or not: training goes on, and it is told once."""

from __future__ import annotations

import os
import signal
from threading import Event

import pytest
from redis import Redis
from structlog.testing import capture_logs

from services.embedded.librdkafka import EmbeddedKafka
from services.embedded.redis import EmbeddedRedis
from services.stream.errors import SourceMissing, SourceUnavailable
from services.stream.sdk import stream
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import (
    JOB,
    impatient,
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
