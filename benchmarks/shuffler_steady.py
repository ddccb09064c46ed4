"""CPU per record, bytes to decoded batch: the SDK beside a bare `Consumer.consume()` loop.

Run with KIND BOOTSTRAP TOPIC REDIS: measures one of them in a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from services.settings import Settings
from services.stream.sdk import stream

RECORDS, WARM_UP, BATCH, PARTITIONS = 300_000, 50_000, 500, 4
_FORM = struct.Struct("<40f")


def decode(message: Message) -> tuple[float, ...]:
    """Forty features, as a click has them."""
    return _FORM.unpack(message.value() or b"")


def _bare(bootstrap: str, topic: str, _redis: str) -> Iterator[list[Any]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bare", "enable.auto.commit": False, "log_level": 2}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    while True:
        messages = [message for message in consumer.consume(BATCH, 1.0) if message.error() is None]
        yield list(map(decode, messages))


def _sdk(bootstrap: str, topic: str, redis: str) -> Iterator[list[Any]]:
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


KINDS: dict[str, Callable[[str, str, str], Iterator[list[Any]]]] = {"bare": _bare, "sdk": _sdk}


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print microseconds of CPU per record, all threads together, once warm."""
    kind, bootstrap, topic, redis = sys.argv[1:5]
    read, began = 0, (0.0, 0)
    for decoded in KINDS[kind](bootstrap, topic, redis):
        read += len(decoded)
        if not began[1] and read >= WARM_UP:
            began = (_cpu_s(), read)
        if read >= RECORDS:
            break
    us = (_cpu_s() - began[0]) / (read - began[1]) * 1e6
    sys.stdout.write(json.dumps({"us_per_record": us}) + "\n")
    sys.stdout.flush()
    os._exit(0)  # how long leaving takes is not the question


if __name__ == "__main__":
    main()
