"""What Kafka leaves out or deletes: transactions, retention, partitions that come later."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined] # not in its __all__
from httpx2 import ASGITransport, AsyncClient
from prometheus_client import CollectorRegistry
from redis import Redis
from structlog.testing import capture_logs

from services.api.app import create_app
from services.embedded.librdkafka import EmbeddedKafka
from services.settings import Settings
from services.store.connect import connect
from services.store.keys import Keys
from services.store.streams import AUDIT_KEPT, RedisStream
from services.stream.redis_ledger import RedisLedger
from shuffler.ledger import Terms
from tests.api.sites import Rig
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import (
    JOB,
    committed,
    delete_below,
    produce,
    progress_of,
    settings_for,
    trained_all,
    training,
)
from tests.waiting import eventually


@pytest.mark.real_broker
async def test_records_deleted_before_they_were_trained_are_counted_told_and_audited(
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
    entries = await shown_in_the_audit(settings)
    assert {(e["action"], e["who"], e["job"]) for e in entries} == {("samples.lost", "a", JOB)}
    ranges = [gone for e in entries for change in e["changes"] for gone in change["before"]]
    assert sorted(offset for gone in ranges for offset in range(*gone)) == list(range(10, 150))


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


async def shown_in_the_audit(settings: Settings) -> list[Any]:
    """What the API answers when it is asked for the job's changes."""
    client = connect(settings.redis)
    audit = RedisStream(client, Keys(settings.redis.prefix).audit(), kept=AUDIT_KEPT)
    rig = Rig()
    token = await rig.token()
    app = create_app(replace(rig.site, audit=audit, registry=CollectorRegistry()))
    asking = AsyncClient(transport=ASGITransport(app), base_url="http://localhost")
    async with aclosing(client), asking:
        answer = await asking.get(f"/v1/audit?job={JOB}", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()
    return found


def ledger_of(settings: Settings, client: Redis) -> RedisLedger:
    return RedisLedger(client, Keys(settings.redis.prefix), JOB, Terms())


def somebody_opened_it_at(settings: Settings, *, start: int, end: int) -> None:
    with Redis.from_url(settings.redis.url) as client:
        ledger_of(settings, client).open({0: start})
        ledger_of(settings, client).extend({0: end})
