"""Streams on every kind of Kafka: everything is trained, and Kafka's own tools see how far."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from services.settings import Settings
from services.stream.redis_ledger import RedisLedger
from services.stream.sdk import stream
from shuffler.lease import Lease
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import (
    JOB,
    committed,
    name_active,
    opened,
    produce,
    progress_of,
    settings_for,
    trained_all,
    training,
)
from tests.waiting import eventually


def test_two_workers_train_every_sample_once(every_kafka: KafkaUnderTest, redis_url: str, group: str) -> None:
    topic = every_kafka.new_topic(3)
    samples = produce(every_kafka.bootstrap, topic, {0: 700, 1: 200, 2: 33})
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group)

    with training(settings, "a", "b") as (one, other):
        progress = trained_all(settings, samples)

    assert one.seen + other.seen == dict.fromkeys(
        [(p, offset) for p, count in ((0, 700), (1, 200), (2, 33)) for offset in range(count)], 1
    )
    assert progress.watermarks == progress.ends == {0: 700, 1: 200, 2: 33}
    assert (progress.repeated, progress.lost, progress.late) == (0, 0, 0)
    assert committed(settings, 3) == {0: 700, 1: 200, 2: 33}


def test_leases_end_with_a_full_batch_so_that_none_waits_for_a_jump(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(3)
    samples = produce(kafka.bootstrap, topic, dict.fromkeys(range(3), 1_000))
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle={"lease_s": 0.013})
    step = Event()  # never set: a batch takes some milliseconds, so that leases are of a few batches

    with training(settings, "a", before_done=lambda: step.wait(0.005)) as (worker,):
        trained_all(settings, samples)

    assert set(worker.sizes) == {50}
    assert set(worker.spans) == {1}


def test_samples_that_arrive_later_are_trained_too(
    every_kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = every_kafka.new_topic(2)
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group)

    with training(settings, "a"):
        for wave in range(1, 4):
            produce(every_kafka.bootstrap, topic, {0: 10, 1: 120})
            trained_all(settings, 130 * wave)

    assert committed(settings, 2) == {0: 30, 1: 360}


def test_new_samples_of_a_quiet_partition_do_not_wait_for_the_backlog_of_another(
    every_kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = every_kafka.new_topic(2)
    backlog = produce(every_kafka.bootstrap, topic, {0: 20_000})
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group, slo={"fresh_within_s": 1.0})

    with training(settings, "busy", before_done=lambda: time.sleep(0.01)) as (busy,):
        eventually(lambda: opened(settings).trained > 0, what="it is at the backlog")
        produce(every_kafka.bootstrap, topic, {1: 10})
        eventually(lambda: (1, 9) in busy.seen, what="the new samples are trained")
        assert progress_of(settings).watermarks[0] < backlog


def test_a_worker_that_is_ready_has_told_the_ledger_how_far_partitions_reach(
    every_kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = every_kafka.new_topic(1)
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group)
    with training(settings, "first"):
        trained_all(settings, 0)
    produce(every_kafka.bootstrap, topic, {0: 30})

    with stream(settings, JOB, worker="second"):
        assert progress_of(settings).ends == {0: 30}


def test_a_worker_takes_what_is_there_at_first_and_full_batches_later(
    every_kafka: KafkaUnderTest, redis_url: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = every_kafka.new_topic(1)
    samples = produce(every_kafka.bootstrap, topic, {0: 10})
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group)
    acquire, leasts = RedisLedger.acquire, []

    def noted(ledger: RedisLedger, worker: str, **wish: Any) -> Lease | None:
        lease = acquire(ledger, worker, **wish)
        leasts.append((wish["least"], lease is not None))
        return lease

    monkeypatch.setattr(RedisLedger, "acquire", noted)
    with training(settings, "a"):
        trained_all(settings, samples)
        produce(every_kafka.bootstrap, topic, {0: 10})
        trained_all(settings, samples + 10)

    given = [least for least, gave in leasts if gave]
    assert given[0] == 1
    assert set(given[1:]) == {50}


def test_a_worker_holds_little_ahead_of_what_it_trains(
    every_kafka: KafkaUnderTest, redis_url: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits in one worker's hands another could train: even long leases are taken late."""
    topic = every_kafka.new_topic(8)
    samples = produce(every_kafka.bootstrap, topic, dict.fromkeys(range(8), 300))
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group, shuffle={"lease_s": 2.0})
    acquire, given, begun, held = RedisLedger.acquire, [0], [0], []

    def noted(ledger: RedisLedger, worker: str, **wish: Any) -> Lease | None:
        lease = acquire(ledger, worker, **wish)
        if lease is not None:
            held.append(given[0] - 50 * begun[0])
            given[0] += lease.end - lease.start
        return lease

    def train() -> None:  # 1,000 a second
        begun[0] += 1
        time.sleep(0.05)

    monkeypatch.setattr(RedisLedger, "acquire", noted)
    with training(settings, "slow", before_done=train):
        trained_all(settings, samples)

    assert max(held) <= 50 + 100, "more than the next batch and a tenth of a second of work"


def test_a_worker_that_leaves_gives_back_what_it_did_not_read(
    every_kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = every_kafka.new_topic(1)
    samples = produce(every_kafka.bootstrap, topic, {0: 5_000})
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group, shuffle={"lease_s": 60.0})
    with stream(settings, JOB, worker="leaver") as batches:
        taken = 0
        for batch in batches:
            taken += len(batch)
            batch.done()
            batches.stop()
    left_at = progress_of(settings)
    assert left_at.trained == taken == left_at.watermarks[0] < samples

    with training(settings, "other"):
        progress = trained_all(settings, samples)

    assert progress.repeated == 0
    assert progress.watermarks == {0: samples}


def test_breaking_out_of_the_loop_gives_back_what_is_not_done(
    every_kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = every_kafka.new_topic(1)
    samples = produce(every_kafka.bootstrap, topic, {0: 300})
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group)
    with stream(settings, JOB, worker="a") as batches:
        next(batches).done()
        next(batches)  # taken, never done

    assert progress_of(settings).trained == 50
    with training(settings, "b") as (other,):
        trained_all(settings, samples)
    assert sorted(offset for _, offset in other.seen) == list(range(50, samples))


@pytest.mark.parametrize(("start", "expected"), [("committed", 30), ("earliest", 80), ("latest", 0)])
def test_a_new_job_starts_where_its_settings_say(
    every_kafka: KafkaUnderTest, redis_url: str, group: str, start: str, expected: int
) -> None:
    topic = every_kafka.new_topic(1)
    produce(every_kafka.bootstrap, topic, {0: 80})
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group, shuffle={"start": start})
    somebody_elses_commit(settings, offset=50)

    with training(settings, "a"):
        trained_all(settings, expected)
        produce(every_kafka.bootstrap, topic, {0: 5})
        trained_all(settings, expected + 5)


def test_late_samples_are_counted(every_kafka: KafkaUnderTest, redis_url: str, group: str) -> None:
    topic = every_kafka.new_topic(1)
    samples = produce(every_kafka.bootstrap, topic, {0: 60})
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group, slo={"fresh_within_s": 0.001})

    with training(settings, "a"):
        assert trained_all(settings, samples).late == samples


def somebody_elses_commit(settings: Settings, *, offset: int) -> None:
    job = settings.jobs[JOB]
    consumer = Consumer(settings.kafka.client(**{"group.id": job.group_of(JOB), "log_level": 2}))
    consumer.commit(offsets=[TopicPartition(job.topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_a_standby_takes_no_lease_until_it_is_named_and_then_at_once(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(2)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    name_active(settings, "a")
    samples = produce(kafka.bootstrap, topic, {0: 300, 1: 300})

    with training(settings, "a", "b") as (one, other):
        trained_all(settings, samples)
        assert not other.seen, "it stands by"
        name_active(settings, "b")

        def only_the_other_trains() -> bool:
            nonlocal samples
            before = sum(one.seen.values())
            samples += produce(kafka.bootstrap, topic, {0: 100})
            trained_all(settings, samples)
            return sum(one.seen.values()) == before

        eventually(only_the_other_trains, what="b trains, and a stands by")

    assert sum(other.seen.values()) >= 100
    assert sum(one.seen.values()) + sum(other.seen.values()) == samples


def test_a_standby_leaves_when_it_is_asked_to(kafka: KafkaUnderTest, redis_url: str, group: str) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    name_active(settings, "a")
    produce(kafka.bootstrap, topic, {0: 50})

    with training(settings, "b") as (waiting,):
        pass

    assert not waiting.seen


def test_while_the_controller_is_down_those_it_named_go_on_and_others_take_the_place_of_the_dead(
    kafka: KafkaUnderTest, redis_url: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.store.reports.LEADERLESS_S", 1.5)  # nobody leads here
    topic = kafka.new_topic(2)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    name_active(settings, "named")
    samples = produce(kafka.bootstrap, topic, {0: 200, 1: 200})
    with training(settings, "named") as (named,):
        trained_all(settings, samples)
    assert sum(named.seen.values()) == samples
    samples += produce(kafka.bootstrap, topic, {0: 200, 1: 200})

    with training(settings, "newcomer") as (newcomer,):
        trained_all(settings, samples)

    assert sum(newcomer.seen.values()) == 400
