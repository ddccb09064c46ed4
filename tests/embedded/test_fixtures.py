"""The fixtures give what they promise."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from redis import Redis

from tests.servers.kafka import KafkaUnderTest, TopicFactory
from tests.waiting import eventually


def round_trip(bootstrap: str, topic: str, group: str, count: int = 100) -> list[bytes]:
    """Produce `count` records, consume them all, return their values in order of arrival."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, value=str(number).encode(), partition=number % 2)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.subscribe([topic])
    seen: list[bytes] = []

    def all_seen() -> bool:
        for message in consumer.consume(count, timeout=0.2):
            assert message.error() is None, message.error()
            seen.append(message.value() or b"")
        return len(seen) >= count

    eventually(all_seen, within_s=60, what=f"{count} records consumed")
    consumer.close()
    return seen


def test_what_is_produced_is_consumed_on_every_kafka(every_kafka: KafkaUnderTest, group: str) -> None:
    topic = every_kafka.new_topic(partitions=2)

    seen = round_trip(every_kafka.bootstrap, topic, group)

    assert sorted(map(int, seen)) == list(range(100))


def test_a_topic_is_new_and_has_the_partitions_asked_for(kafka: KafkaUnderTest, topic: TopicFactory) -> None:
    first, second = topic(partitions=3), topic(partitions=5)

    known = kafka.admin().list_topics(timeout=10).topics
    assert len(known[first].partitions) == 3
    assert len(known[second].partitions) == 5


@pytest.mark.parametrize("round_number", [1, 2])
def test_each_test_has_a_redis_database_of_its_own(redis_url: str, round_number: int) -> None:
    with Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("left-behind", round_number)


@pytest.mark.real_broker
def test_a_marked_test_gets_a_real_broker(kafka: KafkaUnderTest) -> None:
    assert kafka.is_real
