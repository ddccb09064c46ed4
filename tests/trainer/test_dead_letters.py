"""A message that cannot be trained is kept, as it was, with the reason and the place it came from."""

from __future__ import annotations

from confluent_kafka import Consumer, Message, Producer
from structlog.testing import capture_logs

from services.samples.decode import decode
from services.samples.layout import SampleShape
from services.settings.root import KafkaSettings
from services.trainer.dead_letters import DeadLetters
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import produce
from tests.waiting import eventually


def consumed(bootstrap: str, topic: str, count: int) -> list[Message]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    found: list[Message] = []

    def all_there() -> bool:
        found.extend(message for message in consumer.consume(100, 0.5) if message.error() is None)
        return len(found) >= count

    try:
        eventually(all_there, within_s=60, what=f"{count} messages in {topic}")
    finally:
        consumer.close()
    return found


def test_what_was_rejected_lies_in_the_dead_letter_topic_with_its_reason(kafka: KafkaUnderTest) -> None:
    topic = kafka.new_topic(1)
    kafka.create_topic(f"{topic}.dead-letter", 1)
    produce(kafka.bootstrap, topic, {0: 3})
    messages = consumed(kafka.bootstrap, topic, 3)
    letters = DeadLetters(KafkaSettings(bootstrap=kafka.bootstrap), topic)

    letters.put(messages, {1: "its label is nan"})
    letters.close()

    assert (letters.sent, letters.unsent) == (1, 0)
    (kept,) = consumed(kafka.bootstrap, letters.topic, 1)
    assert kept.value() == messages[1].value()
    headers = dict(kept.headers() or [])
    assert headers["reason"] == b"its label is nan"
    assert (headers["topic"], headers["partition"], headers["offset"]) == (topic.encode(), b"0", b"1")


def test_a_large_message_is_kept_too_though_its_reason_quotes_it(kafka: KafkaUnderTest) -> None:
    topic = kafka.new_topic(1)
    kafka.create_topic(f"{topic}.dead-letter", 1)
    whole = b'{"v": "' + b"x" * 1_010_000 + b'"}'
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "message.max.bytes": 2_000_000})
    producer.produce(topic, whole)
    assert producer.flush(30) == 0
    messages = consumed(kafka.bootstrap, topic, 1)
    decoded = decode([messages[0].value()], SampleShape(1, 1))
    letters = DeadLetters(KafkaSettings(bootstrap=kafka.bootstrap), topic)

    letters.put(messages, decoded.rejected)
    letters.close()

    assert (letters.sent, letters.unsent) == (1, 0)
    (kept,) = consumed(kafka.bootstrap, letters.topic, 1)
    assert kept.value() == whole


def test_a_letter_that_cannot_be_sent_is_counted_and_told(kafka: KafkaUnderTest) -> None:
    topic = kafka.new_topic(1)
    produce(kafka.bootstrap, topic, {0: 1})
    messages = consumed(kafka.bootstrap, topic, 1)
    nobody = KafkaSettings(bootstrap="127.0.0.1:1", options={"message.timeout.ms": "200"})
    letters = DeadLetters(nobody, topic)

    with capture_logs() as logs:
        letters.put(messages, {0: "it is empty"})
        letters.close()

    assert letters.unsent == 1
    assert [log["event"] for log in logs] == ["sample_rejected", "dead_letter_unsent"]
