"""Where messages go that cannot be trained: a topic of their own, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from services.settings.root import KafkaSettings

_log = structlog.get_logger(__name__)

SUFFIX: Final = ".dead-letter"
_FLUSH_S: Final = 5.0
_REASON_MOST: Final = 500
"""Characters: a reason may quote all of a message, and both together would be too large for Kafka."""
_OPTIONS: Final[dict[str, Any]] = {
    "linger.ms": 20,
    "message.timeout.ms": 30_000,
    "message.max.bytes": 100_000_000,  # Kafka decides: it took them once already
    "log_level": 2,
}


class DeadLetters:
    """Sends messages as they were to `<topic>.dead-letter`; headers tell why and where they came from.

    Never stands in the way of training: what cannot be sent is counted and told in the log, with the
    offset, so that it can still be found in the topic itself.
    """

    def __init__(self, kafka: KafkaSettings, topic: str) -> None:
        self.topic = topic + SUFFIX
        self.sent = 0
        self.unsent = 0
        self._kafka = kafka
        self._producer: Producer | None = None

    def put(self, messages: list[Message], reasons: Mapping[int, str]) -> None:
        """Send those of `messages` whose place is in `reasons`."""
        for place, why in reasons.items():
            self._send(messages[place], why[:_REASON_MOST])
        if self._producer is not None:
            self._producer.poll(0)

    def close(self) -> None:
        """Wait a little for what is on its way."""
        if self._producer is not None:
            self._producer.flush(_FLUSH_S)

    def _send(self, message: Message, why: str) -> None:
        partition, offset = message.partition(), message.offset()
        _log.warning("sample_rejected", partition=partition, offset=offset, why=why, kept_in=self.topic)
        if self._producer is None:  # most workers never meet one
            self._producer = Producer({**_OPTIONS, **self._kafka.client()})
        headers = {"reason": why, "topic": message.topic(), "partition": partition, "offset": offset}
        try:
            self._producer.produce(
                self.topic,
                key=message.key(),
                value=message.value(),
                headers=[(name, str(value).encode()) for name, value in headers.items()],
                on_delivery=self._told,
            )
        except (BufferError, KafkaException) as error:
            self._lost(str(error))

    def _told(self, error: KafkaError | None, message: Message) -> None:
        del message
        if error is None:
            self.sent += 1
        else:
            self._lost(error.str())

    def _lost(self, why: str) -> None:
        self.unsent += 1
        _log.error(
            "dead_letter_unsent", topic=self.topic, why=why, remedy="make the topic, or let it be made"
        )
