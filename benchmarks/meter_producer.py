"""A producer that writes down when each record was acknowledged: the truth that the meter is held against.

Runs in a process of its own, so that neither disturbs the other's timing.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaError, Message, Producer
from numpy.typing import NDArray

from services.clock import elapsed_s

PARTITIONS = 4
SLOT_S = 0.01
RECORDS_A_TRANSACTION = 10


@dataclass(frozen=True)
class Truth:
    """Elapsed seconds at which each record was acknowledged, by partition and offset; 0 where not yet."""

    times: NDArray[np.float64]

    @classmethod
    def new(cls, path: Path, records: int) -> Truth:
        """An empty one, in a file that both processes map."""
        return cls(np.memmap(path, np.float64, mode="w+", shape=(PARTITIONS, records)))

    @classmethod
    def open(cls, path: Path, *, writing: bool = False) -> Truth:
        mapped = np.memmap(path, np.float64, mode="r+" if writing else "r")
        return cls(mapped.reshape(PARTITIONS, -1))

    def arrived_by(self, at_s: float) -> list[int]:
        """How many records each partition had by then: acknowledgements come in order."""
        return [int(((row > 0) & (row <= at_s)).sum()) for row in self.times]

    def between(self, from_s: float, until_s: float) -> int:
        """How many records came in this time."""
        return int(((self.times > from_s) & (self.times <= until_s)).sum())


def rate_at(second: float) -> float:
    """Steps and a swell: an average over the past is wrong most of the time."""
    return 800.0 + 600.0 * math.sin(second / 7.0) + (1500.0 if second % 20 < 6 else 0.0)


def produce(bootstrap: str, topic: str, path: Path, seconds: float) -> None:
    """Plain records at `rate_at`."""
    truth = Truth.open(path, writing=True)

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        assert error is None
        truth.times[message.partition(), message.offset()] = elapsed_s()

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, "log_level": 2})
    random = np.random.default_rng(1)
    started_s = elapsed_s()
    for slot in range(int(seconds / SLOT_S)):
        while (left_s := started_s + slot * SLOT_S - elapsed_s()) > 0:
            producer.poll(min(left_s, 0.002))
        for _ in range(int(random.poisson(rate_at(slot * SLOT_S) * SLOT_S))):
            producer.produce(
                topic, b"x" * 100, partition=int(random.integers(PARTITIONS)), on_delivery=acknowledged
            )
        producer.poll(0)
    producer.flush(30)


def transact(bootstrap: str, topic: str, path: Path, seconds: float) -> None:
    """Transactions of ten records; what counts is when they were committed."""
    truth = Truth.open(path, writing=True)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 0, "transactional.id": topic, "log_level": 2}
    )
    producer.init_transactions(30)
    started_s, done = elapsed_s(), 0
    while elapsed_s() - started_s < seconds:
        producer.begin_transaction()
        for _ in range(RECORDS_A_TRANSACTION):
            producer.produce(topic, b"x" * 100, partition=0)
        producer.commit_transaction(30)
        truth.times[0, done : done + RECORDS_A_TRANSACTION] = elapsed_s()
        done += RECORDS_A_TRANSACTION
        time.sleep(0.005)


if __name__ == "__main__":
    kind, bootstrap_, topic_, path_, seconds_ = sys.argv[1:]
    {"plain": produce, "transactions": transact}[kind](bootstrap_, topic_, Path(path_), float(seconds_))
