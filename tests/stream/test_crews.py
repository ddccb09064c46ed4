"""Workers beside each other, and beside members of the group that are not ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
from confluent_kafka import Consumer
from redis import Redis
from structlog.testing import capture_logs

from services.settings import Settings
from services.store.keys import Keys
from services.stream.errors import GroupHasMembers
from services.stream.sdk import stream
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import (
    JOB,
    committed,
    leases_out,
    produce,
    settings_for,
    trained_all,
    training,
)
from tests.waiting import eventually


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


def alive_until_s(settings: Settings, worker: str) -> float | None:
    """Until when the leases of a worker last; None before it was heard."""
    with Redis.from_url(settings.redis.url) as client:
        known = client.hgetall(Keys(settings.redis.prefix).ledger(JOB, "workers"))
    records = (record for holder, record in known.items() if holder.decode().startswith(f"{worker}."))
    return next((float(record.split()[0]) for record in records), None)
