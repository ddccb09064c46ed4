"""When Kafka no longer is what the ledger remembers: moved offsets, lost ledgers, topics made anew."""

from __future__ import annotations

import json
from itertools import count
from threading import Event
from typing import Any

import pytest
from redis import Redis
from structlog.testing import capture_logs

from services.settings import Settings
from services.store.keys import Keys
from services.stream.group_commit import Commit, epoch_of
from services.stream.reconcile import reset_needed
from services.stream.topic import Topic
from shuffler.errors import NotOpened
from shuffler.lease import Progress
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import (
    JOB,
    committed,
    produce,
    progress_of,
    settings_for,
    trained_all,
    training,
)
from tests.waiting import eventually


def standing(**facts: Any) -> Progress:
    known: dict[str, Any] = {
        "watermarks": {0: 50, 1: 70},
        "ends": {0: 60, 1: 70},
        "trained": 120,
        "late": 0,
        "repeated": 0,
        "lost": 0,
        "epoch": 7,
        "topic_id": "first",
        "committed": True,
    }
    return Progress(**{**known, **facts})


def make_anew(kafka: KafkaUnderTest, topic: str) -> None:
    """Delete the topic, and create one of its name with a partition and 60 samples."""
    admin = kafka.admin()
    admin.delete_topics([topic])[topic].result()
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics, what="the topic is gone")
    kafka.create_topic(topic, 1)
    produce(kafka.bootstrap, topic, {0: 60})


def test_our_own_commit_at_or_below_the_watermark_changes_nothing() -> None:
    commits = {0: Commit(50, epoch=7), 1: Commit(60, epoch=7)}

    assert reset_needed(standing(), commits, topic_id="first") is None


def test_a_commit_that_is_not_ours_is_an_operators_reset() -> None:
    commits = {0: Commit(10, epoch=None), 1: Commit(70, epoch=7)}

    reset = reset_needed(standing(), commits, topic_id="first")

    assert reset is not None
    assert (reset.why, reset.starts) == ("operator_moved_the_group", {0: 10})


@pytest.mark.parametrize("number", ["\N{SUPERSCRIPT TWO}", "", "-5", "1e3", "9" * 26, "\N{THAI DIGIT TWO}"])
def test_a_mark_that_only_looks_like_ours_is_not_ours(number: str) -> None:
    assert epoch_of(f"penstock epoch={number}") is None


def test_a_foreign_commit_before_our_first_one_is_no_reset() -> None:
    commits = {0: Commit(10, epoch=None)}

    assert reset_needed(standing(committed=False), commits, topic_id="first") is None


@pytest.mark.parametrize("commit", [Commit(51, epoch=7), Commit(10, epoch=8)])
def test_a_ledger_older_than_the_commit_follows_it(commit: Commit) -> None:
    reset = reset_needed(standing(), {0: commit}, topic_id="first")

    assert reset is not None
    assert (reset.why, reset.starts) == ("ledger_older_than_commit", {0: commit.offset})
    assert reset.after_epoch == commit.epoch


def test_another_topic_of_the_same_name_starts_at_its_beginning() -> None:
    reset = reset_needed(standing(), {}, topic_id="second")

    assert reset is not None
    assert (reset.why, reset.partitions, reset.starts) == ("topic_recreated", (0, 1), None)
    assert reset.lost == 10


def test_a_topic_whose_id_is_not_told_is_believed_to_be_the_same() -> None:
    assert reset_needed(standing(), {}, topic_id="") is None


def test_an_operators_reset_of_the_group_is_adopted_under_a_higher_epoch(
    every_kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = every_kafka.new_topic(2)
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group)
    produce(every_kafka.bootstrap, topic, {0: 100, 1: 40})
    with capture_logs() as logs, training(settings, "a") as (worker,):
        trained_all(settings, 140)
        eventually(lambda: committed(settings, 2) == {0: 100, 1: 40}, every_s=0.5, what="the commit")
        eventually(lambda: progress_of(settings).committed, what="the commit is known to the ledger")
        epoch = progress_of(settings).epoch

        operator_moves(settings, {0: 30})
        eventually(lambda: progress_of(settings).trained == 210, what="trained again from there")

    assert progress_of(settings).epoch > epoch
    assert [log["why"] for log in logs if log["event"] == "ledger_reset"] == ["operator_moved_the_group"]
    assert {offset for (p, offset), times in worker.seen.items() if p == 0 and times == 2} == set(
        range(30, 100)
    )
    assert committed(settings, 2) == {0: 100, 1: 40}


def test_a_ledger_restored_from_an_old_copy_goes_on_from_the_commit(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    produce(kafka.bootstrap, topic, {0: 50})
    with training(settings, "a"):
        trained_all(settings, 50)
    keys = [Keys(settings.redis.prefix).ledger(JOB, part) for part in ("state", "partitions")]
    with Redis.from_url(redis_url) as client:
        copies = {key: client.dump(key) for key in keys}
        produce(kafka.bootstrap, topic, {0: 50})
        with training(settings, "a"):
            trained_all(settings, 100)
        for key, copy in copies.items():
            client.restore(key, 0, copy, replace=True)
    epoch = progress_of(settings).epoch
    assert progress_of(settings).watermarks == {0: 50}

    with training(settings, "b"):
        eventually(lambda: progress_of(settings).epoch > epoch, what="a higher epoch")
        eventually(lambda: progress_of(settings).watermarks == {0: 100}, what="the commit is adopted")


@pytest.mark.real_broker
def test_a_topic_made_anew_is_trained_from_its_beginning_and_the_old_rest_is_lost(
    kafka: KafkaUnderTest, redis_url: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.stream.committer._LOOK_FOR_TOPIC_S", 0.2)
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    produce(kafka.bootstrap, topic, {0: 100})
    with training(settings, "a"), capture_logs() as logs:
        trained_all(settings, 100)
        eventually(lambda: progress_of(settings).topic_id, what="the topic's id is known")
        epoch = progress_of(settings).epoch
        make_anew(kafka, topic)
        eventually(lambda: progress_of(settings).epoch > epoch, within_s=60, what="it is noticed")
        eventually(lambda: progress_of(settings).watermarks == {0: 60}, within_s=60, what="all is trained")

    assert "topic_recreated" in [log.get("why") for log in logs], json.dumps(logs, default=str)


@pytest.mark.real_broker
def test_a_topic_made_anew_with_fewer_partitions_is_trained_and_nobody_waits_for_those_that_are_gone(
    kafka: KafkaUnderTest, redis_url: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.stream.committer._LOOK_FOR_TOPIC_S", 0.2)
    topic = kafka.new_topic(2)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle={"lease_s": 10.0})
    produce(kafka.bootstrap, topic, {1: 20_000})
    batches, is_gone = count(1), Event()
    with training(settings, "a", before_done=lambda: next(batches) < 20 or is_gone.wait(60)):
        eventually(lambda: out_of(settings) > 5_000, what="more is leased than Kafka fetches ahead")
        eventually(lambda: progress_of(settings).topic_id, what="the topic's id is known")
        epoch = progress_of(settings).epoch
        make_anew(kafka, topic)
        eventually(lambda: progress_of(settings).epoch > epoch, within_s=60, what="it is noticed")
        is_gone.set()
        eventually(
            lambda: progress_of(settings).watermarks == {0: 60, 1: 0}, within_s=60, what="all is trained"
        )
        eventually(lambda: committed(settings, 1) == {0: 60}, every_s=0.5, what="the commit")
        eventually(lambda: progress_of(settings).committed, what="the ledger knows of the commit")


def out_of(settings: Settings) -> int:
    """Offsets that are out on leases; none before a worker has opened the ledger."""
    try:
        return progress_of(settings).out
    except NotOpened:
        return 0


def operator_moves(settings: Settings, offsets: dict[int, int]) -> None:
    """As Kafka's own tools do it: without our mark."""
    job = settings.jobs[JOB]
    topic = Topic(settings.kafka, job.topic, job.group_of(JOB))
    try:
        topic.commit(offsets, epoch=None)
    finally:
        topic.close()
