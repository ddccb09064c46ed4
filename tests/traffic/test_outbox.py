"""The outbox counts exactly what the broker holds, also when the cluster goes away for a while."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Consumer, TopicPartition

from services.embedded.librdkafka import EmbeddedKafka
from services.traffic.outbox import Outbox
from services.traffic.topic import TopicUnavailable, require_topic
from tests.servers.kafka import KafkaUnderTest
from tests.waiting import eventually

SAMPLES = [(b"user-%d" % n, b"sample %d" % n) for n in range(1000)]


def written(bootstrap: str, topic: str, partitions: int) -> int:
    """How many records the topic holds."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "count", "log_level": 2})
    try:
        marks = [
            reader.get_watermark_offsets(TopicPartition(topic, p), timeout=20) for p in range(partitions)
        ]
    finally:
        reader.close()
    return sum(end - start for start, end in marks)


def test_everything_handed_over_is_in_the_log_once(every_kafka: KafkaUnderTest) -> None:
    topic = every_kafka.new_topic(partitions=3)
    outbox = Outbox({"bootstrap.servers": every_kafka.bootstrap}, topic, stop=threading.Event())

    outbox.send(SAMPLES)
    outbox.close(within_s=20)

    assert (outbox.sent.produced, outbox.sent.in_flight) == (1000, 0)
    assert written(every_kafka.bootstrap, topic, 3) == 1000


def test_a_cluster_that_goes_away_and_comes_back_loses_and_repeats_nothing() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topic("clicks", 2)
        outbox = Outbox({"bootstrap.servers": kafka.bootstrap}, "clicks", stop=threading.Event())
        outbox.send(SAMPLES)
        kafka.set_broker_down(1)
        outbox.send(SAMPLES)
        kafka.set_broker_up(1)

        def all_acknowledged() -> bool:
            outbox.send([])
            return outbox.sent.produced == 2000

        eventually(all_acknowledged, within_s=60)
        outbox.close(within_s=20)

        assert written(kafka.bootstrap, "clicks", 2) == 2000


def test_a_full_queue_makes_the_sender_wait_and_a_stop_ends_the_wait() -> None:
    stop = threading.Event()
    with EmbeddedKafka() as kafka:
        kafka.create_topic("clicks", 1)
        kafka.set_broker_down(1)
        client = {"bootstrap.servers": kafka.bootstrap, "queue.buffering.max.messages": 100}
        outbox = Outbox(client, "clicks", stop=stop)
        sending = threading.Thread(target=outbox.send, args=(SAMPLES,))
        sending.start()
        try:
            eventually(lambda: outbox.sent.handed == 100)
            assert sending.is_alive(), "the rest waits for room"
        finally:
            stop.set()
            sending.join(timeout=20)
        outbox.close(within_s=0.1)

        assert not sending.is_alive()
        assert (outbox.sent.produced, outbox.sent.in_flight) == (0, 100)


def test_a_missing_topic_is_named_and_not_created(every_kafka: KafkaUnderTest) -> None:
    client = {"bootstrap.servers": every_kafka.bootstrap}

    for _ in range(2):  # the first question must not have created it
        with pytest.raises(TopicUnavailable, match=r"'no-such-topic' is not on .*--partitions"):
            require_topic(client, "no-such-topic", partitions=None)


@pytest.mark.real_broker
def test_a_missing_topic_is_made_when_asked_to(every_kafka: KafkaUnderTest) -> None:
    topic = f"{every_kafka.new_topic(partitions=1)}-made"
    client = {"bootstrap.servers": every_kafka.bootstrap}

    assert require_topic(client, topic, partitions=5) == 5
    assert eventually(lambda: require_topic(client, topic, partitions=None)) == 5


def test_an_unreachable_cluster_is_named() -> None:
    with pytest.raises(TopicUnavailable, match=r"no broker at 127\.0\.0\.1:9 answers"):
        require_topic({"bootstrap.servers": "127.0.0.1:9"}, "clicks", partitions=None, timeout_s=0.5)
