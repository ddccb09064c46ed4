"""Moving a job in its topic, taking over from a consumer group, handing back to one, and joining one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from confluent_kafka import Consumer
from typer.testing import CliRunner

from services.cli.main import app
from services.settings import Settings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream.errors import SourceMissing, SourceUnavailable, StillTraining, StreamError, WithoutLeader
from services.stream.position import hand_back, rewind, take_over
from services.stream.redis_ledger import RedisLedger
from services.stream.sdk import stream
from services.stream.topic import Topic
from shuffler.ledger import Terms
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import (
    JOB,
    committed,
    impatient,
    produce,
    progress_of,
    settings_for,
    trained_all,
    training,
)
from tests.waiting import eventually


@contextmanager
def at_desk(settings: Settings) -> Iterator[tuple[Topic, RedisLedger]]:
    job = settings.jobs[JOB]
    with (
        closing(Topic(settings.kafka, job.topic, job.group_of(JOB))) as topic,
        connect_sync(settings.redis) as client,
    ):
        yield topic, RedisLedger(client, Keys(settings.redis.prefix), JOB, Terms())


def test_a_job_is_rewound_under_its_running_worker(
    every_kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = every_kafka.new_topic(2)
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group)
    produce(every_kafka.bootstrap, topic, {0: 80, 1: 20})
    with training(settings, "a") as (worker,), at_desk(settings) as desk:
        trained_all(settings, 100)
        epoch = progress_of(settings).epoch

        assert rewind(*desk, {0: 50}) == {0: 50}
        eventually(lambda: progress_of(settings).trained == 130, what="trained again from there")

    assert progress_of(settings).epoch > epoch
    assert sum(worker.seen.values()) == 130
    assert committed(settings, 2) == {0: 80, 1: 20}


def test_a_position_that_kafka_does_not_have_is_the_nearest_that_it_has(
    kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = kafka.new_topic(1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    produce(kafka.bootstrap, topic, {0: 10})
    with at_desk(settings) as desk:
        assert rewind(*desk, {0: 5_000}) == {0: 10}
        assert rewind(*desk, "earliest") == {0: 0}
        assert rewind(*desk, "latest") == {0: 10}


class Led(Topic):
    """Of its partitions only the first has a leader."""

    def begins(self, partitions: Iterable[int]) -> dict[int, int]:
        return super().begins(p for p in partitions if p == 0)


@pytest.mark.parametrize("to", ["earliest", {0: 1, 1: 2}])
def test_where_a_partition_cannot_be_moved_nothing_is(
    kafka: KafkaUnderTest, redis_url: str, group: str, to: Literal["earliest"] | dict[int, int]
) -> None:
    topic = kafka.new_topic(2)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    produce(kafka.bootstrap, topic, {0: 10, 1: 10})
    with at_desk(settings) as (reader, ledger), closing(Led(settings.kafka, topic, group)) as led:
        rewind(reader, ledger, "latest")

        with pytest.raises(WithoutLeader, match="partition 1 of"):
            rewind(led, ledger, to)

        assert ledger.progress().watermarks == {0: 10, 1: 10}
        assert rewind(led, ledger, {0: 4, 9: 0}) == {0: 4}


@pytest.mark.real_broker
def test_a_job_starts_or_is_moved_to_a_time(kafka: KafkaUnderTest, redis_url: str, group: str) -> None:
    topic = kafka.new_topic(1)
    between = datetime.now(UTC) - timedelta(seconds=10)
    produce(kafka.bootstrap, topic, {0: 30}, sent_at_s=between.timestamp() - 1)
    produce(kafka.bootstrap, topic, {0: 12}, sent_at_s=between.timestamp() + 1)
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle={"start": between.isoformat()})

    with training(settings, "a"), at_desk(settings) as desk:
        trained_all(settings, 12)
        assert rewind(*desk, between) == {0: 30}
        assert rewind(*desk, datetime.now(UTC)) == {0: 42}, "behind the last record there is only the end"


def test_a_job_takes_over_from_a_group_and_hands_back_to_one(
    every_kafka: KafkaUnderTest, redis_url: str, group: str
) -> None:
    topic = every_kafka.new_topic(1)
    produce(every_kafka.bootstrap, topic, {0: 60})
    settings = settings_for(every_kafka.bootstrap, redis_url, topic, group)
    with closing(Topic(settings.kafka, topic, f"{group}-old")) as old, at_desk(settings) as desk:
        old.commit({0: 25}, epoch=None)

        assert take_over(*desk, settings.kafka, f"{group}-old") == {0: 25}
        with training(settings, "a"):
            trained_all(settings, 35)
        assert hand_back(*desk, settings.kafka, f"{group}-old") == {0: 60}

        assert old.committed([0])[0].offset == 60


def test_a_job_that_trains_is_not_handed_back(kafka: KafkaUnderTest, redis_url: str, group: str) -> None:
    topic = kafka.new_topic(1)
    produce(kafka.bootstrap, topic, {0: 60})
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    with at_desk(settings) as (reader, ledger), stream(settings, JOB, worker="a") as batches:
        next(batches)

        with pytest.raises(StillTraining):
            hand_back(reader, ledger, settings.kafka, f"{group}-old")


def test_the_commands_move_a_job_and_say_where_to(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    topic = kafka.new_topic(1)
    produce(kafka.bootstrap, topic, {0: 40})
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    config = tmp_path / "penstock.yaml"
    config.write_text(yaml.safe_dump(settings.model_dump(mode="json")))

    def run(*command: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [*command, "--config", str(config)])
        return result.exit_code, result.output

    assert run("rewind", JOB, "--to", "0:15") == (0, f"{JOB} goes on at 0:15\n")
    assert run("handback", JOB, "--to", f"{group}-own") == (0, f"{group}-own goes on at 0:15\n")
    assert run("takeover", JOB, "--from", f"{group}-own") == (
        0,
        f"{JOB} takes over from {group}-own at 0:15\n",
    )
    assert run("rewind", JOB, "--to", "yesterday")[0] == 2
    code, said = run("rewind", JOB, "--to", "0:5,7:100")
    assert code == 2, "a partition that is mistyped would be left where it is, without a word"
    assert "--to names partition 7" in said
    assert run("rewind", "nobody", "--to", "latest")[0] == 2


@pytest.mark.real_broker
@pytest.mark.parametrize("protocol", ["cooperative-sticky", "consumer"])
def test_workers_may_join_kafkas_own_group_instead(
    kafka: KafkaUnderTest, redis_url: str, group: str, protocol: str
) -> None:
    topic = kafka.new_topic(2)
    produce(kafka.bootstrap, topic, {0: 120, 1: 70})
    settings = settings_for(
        kafka.bootstrap, redis_url, topic, group, shuffle={"mode": "group", "group_protocol": protocol}
    )
    with training(settings, "a") as (one,):
        eventually(lambda: len(one.seen) == 190, within_s=60, what="everything is trained")
    assert committed(settings, 2) == {0: 120, 1: 70}

    produce(kafka.bootstrap, topic, {0: 10, 1: 10})
    with training(settings, "b") as (other,):
        eventually(lambda: len(other.seen) == 20, within_s=60, what="the rest is trained")

    assert one.seen + other.seen == dict.fromkeys([*one.seen, *other.seen], 1)


@pytest.mark.parametrize(("bootstrap", "raised"), [(None, SourceMissing), ("127.0.0.1:1", SourceUnavailable)])
def test_a_member_of_kafkas_group_says_that_there_is_no_topic_or_no_kafka(
    kafka: KafkaUnderTest, redis_url: str, group: str, bootstrap: str | None, raised: type[StreamError]
) -> None:
    where = bootstrap or kafka.bootstrap
    settings = settings_for(where, redis_url, "no-such-topic", group, shuffle={"mode": "group"})

    with (
        pytest.raises(raised, match="no-such-topic" if bootstrap is None else bootstrap),
        stream(impatient(settings, timeout_s=2.0), JOB, worker="a", connect_s=0.2),
    ):
        pass


def test_a_commit_that_kafkas_group_did_not_take_is_made_again_though_nothing_new_comes(
    kafka: KafkaUnderTest, redis_url: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Losing(Consumer):
        """Its first commit fails behind its back, as one made in the background does."""

        lost = False

        def commit(self, *args: Any, **options: Any) -> Any:
            if not self.lost:
                self.lost = True
                return None
            return super().commit(*args, **options)

    monkeypatch.setattr("services.stream.group_stream.Consumer", Losing)
    topic = kafka.new_topic(1)
    produce(kafka.bootstrap, topic, {0: 100})
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle={"mode": "group"})

    with training(settings, "a"):
        eventually(lambda: committed(settings, 1) == {0: 100}, within_s=60, every_s=0.5, what="the commit")


def test_samples_come_through_the_users_decode(kafka: KafkaUnderTest, redis_url: str, group: str) -> None:
    topic = kafka.new_topic(1)
    produce(kafka.bootstrap, topic, {0: 3})
    settings = settings_for(kafka.bootstrap, redis_url, topic, group)
    with stream(settings, JOB, worker="a", decode=lambda m: (m.value() or b"").decode().upper()) as batches:
        assert next(batches).decoded() == ["0:0", "0:1", "0:2"]
