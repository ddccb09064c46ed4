"""Sends samples to Kafka and keeps exact count of what the broker has acknowledged."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

log = structlog.get_logger()

_DEFAULTS: dict[str, Any] = {
    # A retry must not write a sample twice, or the log would hold more than was counted.
    "enable.idempotence": True,
    # Brokers may be away for long; a sample waits for them instead of failing.
    "message.timeout.ms": 0,
    "linger.ms": 10,
    "queue.buffering.max.messages": 100_000,
    # What librdkafka would print is told once per change by our own log.
    "log_level": 2,
}


@dataclass(slots=True)
class Sent:
    """Where the samples handed to the outbox are. `handed = produced + in_flight`, always."""

    handed: int = 0
    produced: int = 0
    """Acknowledged by the broker: in the log, exactly once."""
    retried: int = 0
    """Deliveries that failed for good in the client and were handed to it again."""

    @property
    def in_flight(self) -> int:
        """Not acknowledged yet. After a stop: unknown, the broker may have them or not."""
        return self.handed - self.produced


class Outbox:
    """A producer that loses no sample and no count while the cluster is away.

    When the queue is full, `send` waits for room. Trouble is logged when it
    begins and when it ends, not for every message.
    """

    def __init__(self, client: Mapping[str, Any], topic: str, *, stop: threading.Event) -> None:
        self.sent = Sent()
        self._topic = topic
        self._stop = stop
        self._trouble = ""
        self._again: list[tuple[bytes | None, bytes | None]] = []
        self._producer = Producer({**_DEFAULTS, **client, "error_cb": self._on_error})

    def send(self, samples: Iterable[tuple[bytes, bytes]]) -> None:
        """Hand over these samples, waiting for room where there is none; a stop ends the wait."""
        self._resend()
        for key, value in samples:
            if not self._hand(key, value):
                return
            self.sent.handed += 1
        self._producer.poll(0)

    def close(self, *, within_s: float) -> None:
        """Wait for acknowledgements, at most `within_s`; what is left then stays `in_flight`."""
        self._producer.flush(within_s)
        self._producer.purge()
        self._producer.flush(1.0)

    def _hand(self, key: bytes | None, value: bytes | None) -> bool:
        while not self._stop.is_set():
            try:
                self._producer.produce(self._topic, key=key, value=value, on_delivery=self._on_delivery)
            except BufferError:
                self._told("the send queue is full")
            except KafkaException as error:
                self._told(str(error.args[0]))
            else:
                return True
            self._producer.poll(0.1)
        return False

    def _resend(self) -> None:
        again, self._again = self._again, []
        for index, (key, value) in enumerate(again):
            if not self._hand(key, value):
                self._again.extend(again[index:])
                return
            self.sent.retried += 1

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.sent.produced += 1
            if self._trouble:
                log.info("delivery_resumed", topic=self._topic, produced=self.sent.produced)
                self._trouble = ""
        elif not self._stop.is_set():
            self._told(error.str())
            self._again.append((message.key(), message.value()))

    def _on_error(self, error: KafkaError) -> None:
        # A single broker's connection comes and goes; only when none is left do samples wait.
        if error.code() == KafkaError._ALL_BROKERS_DOWN or error.fatal():
            self._told(error.str())

    def _told(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.warning("delivery_troubled", topic=self._topic, trouble=trouble, waiting=self.sent.in_flight)
            self._trouble = trouble
