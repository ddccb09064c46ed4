"""CPU per record, bytes to decoded batch, and bytes fetched per byte used: the SDK beside a bare loop.

Run with MEASURE KIND BOOTSTRAP TOPIC REDIS: measures one of them in a process of its own. CPU is counted
in the middle of the topic: a bare consumer fetches hundreds of thousands of records ahead, so near the
beginning it does more than it delivers, and near the end less.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest.mock import patch

from confluent_kafka import Consumer, Message, TopicPartition

from services.settings import Settings
from services.settings.root import KafkaSettings
from services.stream.range_reader import RangeReader
from services.stream.sdk import stream
from services.stream.topic import Topic
from shuffler.lease import Lease

RECORDS, BATCH, PARTITIONS = 1_400_000, 500, 4
COUNTED: Final = range(400_000, 1_000_000)
"""The records whose CPU counts."""
JUMP_EVERY: Final = 10_000
"""Records between two jumps, where jumps are measured."""
_FORM = struct.Struct("<40f")


def decode(message: Message) -> tuple[float, ...]:
    """Forty features, as a click has them."""
    return _FORM.unpack(message.value() or b"")


def _bare(bootstrap: str, topic: str, _redis: str) -> Iterator[list[Any]]:
    """What one writes without us: all partitions at once, librdkafka's own settings."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bare", "enable.auto.commit": False, "log_level": 2}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    while True:
        messages = [message for message in consumer.consume(BATCH, 1.0) if message.error() is None]
        yield list(map(decode, messages))


def _sdk(bootstrap: str, topic: str, redis: str) -> Iterator[list[Any]]:
    """The stream of one worker, as a trainer uses it."""
    job = {"topic": topic, "group": f"steady-{os.getpid()}", "worker": {"batch": BATCH}}
    settings = Settings.model_validate(
        {
            "kafka": {"bootstrap": bootstrap, "options": {}},
            "redis": {"url": redis, "prefix": f"steady-{os.getpid()}"},
            "jobs": {"bench": job},
        }
    )
    with stream(settings, "bench", worker="w", decode=decode) as batches:
        for batch in batches:
            yield batch.decoded()
            batch.done()


def _jumping(bootstrap: str, topic: str, _redis: str) -> Iterator[list[Any]]:
    """The stream's reader at its worst: every range is of another partition than the one before."""
    source = Topic(KafkaSettings(bootstrap=bootstrap), topic, "jumping")
    reader = RangeReader(source.consumer, topic)
    for start in range(0, RECORDS // PARTITIONS, JUMP_EVERY):
        for partition in range(PARTITIONS):
            end = min(start + JUMP_EVERY, RECORDS // PARTITIONS)
            reader.begin(Lease(partition, start, end, "w", token=1, epoch=1, expires_at_s=0.0))
            while not reader.exhausted:
                yield list(map(decode, reader.read(BATCH, timeout_s=1.0)))


KINDS: Final[dict[str, Callable[[str, str, str], Iterator[list[Any]]]]] = {
    "bare": _bare,
    "sdk": _sdk,
    "jumping": _jumping,
}


def cpu(kind: str, *where: str) -> float:
    """Microseconds of CPU per record, all threads together."""
    batches = KINDS[kind](*where)
    read = 0
    while read < COUNTED.start:
        read += len(next(batches))
    began_at, began_s = read, _cpu_s()
    while read < COUNTED.stop:
        read += len(next(batches))
    return (_cpu_s() - began_s) / (read - began_at) * 1e6


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class _Meter:
    """Adds up what librdkafka says that brokers sent to the consumers made here."""

    def __init__(self) -> None:
        self._consumer = Consumer
        self._made: list[Consumer] = []
        self._heard: dict[str, int] = {}
        self._reports = 0

    def consumer(self, configuration: dict[str, Any]) -> Consumer:
        made = self._consumer({**configuration, "statistics.interval.ms": 100, "stats_cb": self._hear})
        self._made.append(made)
        return made

    def _hear(self, statistics: str) -> None:
        said = json.loads(statistics)
        self._heard[said["name"]] = sum(broker["rxbytes"] for broker in said["brokers"].values())
        self._reports += 1

    def total_bytes(self) -> int:
        """What came in by now: whatever was reported before may be older."""
        for consumer in self._made:
            wanted = self._reports + 2
            while self._reports < wanted:
                consumer.poll(0.05)
        return sum(self._heard.values())


def fetched(kind: str, *where: str) -> float:
    """Bytes from the brokers per byte of the records' values."""
    meter = _Meter()
    with (
        patch.object(sys.modules[__name__], "Consumer", meter.consumer),
        patch("services.stream.topic.Consumer", meter.consumer),
    ):
        batches = KINDS[kind](*where)
        read = 0
        while read < RECORDS:
            read += len(next(batches))
    return meter.total_bytes() / (read * _FORM.size)


def main() -> None:
    """Print one figure."""
    measure, *told = sys.argv[1:]
    figure = {"cpu": cpu, "fetched": fetched}[measure](*told)
    sys.stdout.write(json.dumps(figure) + "\n")
    sys.stdout.flush()
    os._exit(0)  # how long leaving takes is not the question


if __name__ == "__main__":
    main()
