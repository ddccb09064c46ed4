"""A producer that writes down when each record was acknowledged: the truth that the meter is held against.

Runs in a process of its own, so that neither disturbs the other's timing.
"""

from __future__ import annotations

import math
import subprocess
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
COMPACTED_PER_S = 1000.0
REWRITTEN_EVERY = 10
SURVIVORS = 1 - 1 / REWRITTEN_EVERY
"""The share of records that compaction leaves."""


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

    def bin_errors(self, start_s: float, rates: list[float], bin_s: float, *, after_s: float) -> list[float]:
        """Relative error of every bin that begins after `after_s` and ends within the producer's time."""
        written = self.times[self.times > 0]
        errors = []
        for number, rate in enumerate(rates):
            from_s = start_s + number * bin_s
            if from_s < max(after_s, written.min()) or from_s + bin_s > written.max() or np.isnan(rate):
                continue
            errors.append(float(abs(rate * bin_s / self.between(from_s, from_s + bin_s) - 1)))
        return errors


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


def write_again(bootstrap: str, topic: str, path: Path, seconds: float) -> None:
    """A steady stream in which every tenth record replaces the one before; only what stays is in the book."""
    truth = Truth.open(path, writing=True)

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        assert error is None
        offset = message.offset() or 0
        if offset % REWRITTEN_EVERY != REWRITTEN_EVERY - 2:
            truth.times[0, offset] = elapsed_s()

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, "log_level": 2})
    started_s, sent = elapsed_s(), 0
    while (now_s := elapsed_s()) - started_s < seconds:
        while sent < (now_s - started_s) * COMPACTED_PER_S:
            rewrites = sent % REWRITTEN_EVERY == REWRITTEN_EVERY - 1
            key = str(sent - rewrites).encode()
            producer.produce(topic, b"x" * 100, key=key, partition=0, on_delivery=acknowledged)
            sent += 1
        producer.poll(SLOT_S)
    producer.flush(30)


def started(kind: str, bootstrap: str, topic: str, path: Path, seconds: float) -> subprocess.Popen[bytes]:
    """This module in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.meter_producer", kind, bootstrap, topic, str(path)]
    return subprocess.Popen([*command, str(seconds)])


if __name__ == "__main__":
    kind_, bootstrap_, topic_, path_, seconds_ = sys.argv[1:]
    kinds = {"plain": produce, "transactions": transact, "compacted": write_again}
    kinds[kind_](bootstrap_, topic_, Path(path_), float(seconds_))
