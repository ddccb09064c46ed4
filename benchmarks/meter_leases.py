"""Where offsets are not samples: rates scaled by what completed leases held, against the producer's book.

A real worker (`penstock worker`) trains through the ledger, as in life, and the meter follows the ledger.
Beside it, in the same run, a meter that takes offsets for samples.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.meter_producer import COMPACTED_PER_S, SURVIVORS, Truth, started
from services.clock import SystemClock, elapsed_s
from services.embedded.apache import ApacheKafka
from services.embedded.redis import EmbeddedRedis
from services.meter.kafka_meter import KafkaMeter
from services.settings import Settings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream.redis_ledger import RedisLedger
from shuffler.errors import NotOpened
from shuffler.lease import Progress
from shuffler.ledger import Terms

BIN_S = 10.0
JOB = "bench"
BATCH = 64
COMPACT: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "500",
}
BEHIND_S = 60.0
"""How far the worker trails on the compacted topic: what it reads has been cleaned by then."""
Figures = dict[str, float | int | str]


async def transactions(kafka: ApacheKafka, path: Path, *, seconds: int) -> Figures:
    """Ten-record transactions: offsets run eleven for ten samples."""
    kafka.create_topic("transactions", 1)
    truth = Truth.new(path, records=200_000)
    producer = started("transactions", kafka.bootstrap, "transactions", path, seconds + 3)
    with EmbeddedRedis() as redis, _worker(kafka, redis, "transactions", step_ms=0.0) as settings:
        figures = await _compared(settings, truth, seconds=seconds)
    producer.wait()
    return {f"transactions_{name}": value for name, value in figures.items()}


async def compaction(kafka: ApacheKafka, path: Path, *, seconds: int) -> Figures:
    """Of ten records one is written again: where a worker trails, offsets run ten for nine samples."""
    kafka.create_topic("compacted", 1, config=COMPACT)
    truth = Truth.new(path, records=400_000)
    producer = started("compacted", kafka.bootstrap, "compacted", path, BEHIND_S + seconds + 3)
    await asyncio.sleep(BEHIND_S)
    # As fast as samples come: it stays as far behind as it began, in what has been cleaned.
    step_ms = 1000.0 * BATCH / (COMPACTED_PER_S * SURVIVORS)
    with EmbeddedRedis() as redis, _worker(kafka, redis, "compacted", step_ms=step_ms) as settings:
        figures = await _compared(settings, truth, seconds=seconds)
    producer.wait()
    return {f"compaction_{name}": value for name, value in figures.items()}


@contextmanager
def _worker(kafka: ApacheKafka, redis: EmbeddedRedis, topic: str, *, step_ms: float) -> Iterator[Settings]:
    """A worker that trains the topic; the settings that it and the meter share."""
    settings = Settings.model_validate(
        {
            "kafka": {"bootstrap": kafka.bootstrap},
            "redis": {"url": redis.url},
            "jobs": {JOB: {"topic": topic, "worker": {"batch": BATCH, "step_ms": step_ms}}},
        }
    )
    options = {
        "--job": JOB, "--worker-id": "w-1", "--kafka": kafka.bootstrap, "--redis": redis.url,
        "--topic": topic, "--batch": str(BATCH), "--step-ms": str(step_ms),
    }  # fmt: skip
    command = [sys.executable, "-m", "services.cli.main", "worker"]
    process = subprocess.Popen([*command, *(word for pair in options.items() for word in pair)])
    try:
        yield settings
    finally:
        process.terminate()
        process.wait()


async def _compared(settings: Settings, truth: Truth, *, seconds: int) -> Figures:
    """Rates by ten-second bins of a meter that follows the ledger, and of one that does not."""
    job = settings.jobs[JOB]
    known: dict[str, Any] = {
        "topic": job.topic, "group": "nobody", "clock": SystemClock(), "step_s": BIN_S,
    }  # fmt: skip
    client = {"bootstrap.servers": settings.kafka.bootstrap, "log_level": 2}
    epoch_s = time.time() - elapsed_s()
    with closing(connect_sync(settings.redis)) as redis:
        ledger = RedisLedger(redis, Keys(settings.redis.prefix), JOB, Terms(ttl_s=job.shuffle.lease_ttl_s))

        async def progress() -> Progress:
            try:
                return await asyncio.to_thread(ledger.progress)
            except NotOpened:
                return Progress({}, {}, trained=0, late=0, repeated=0, lost=0, epoch=0)

        async with (
            KafkaMeter(client, progress=progress, **known) as scaled,
            KafkaMeter(client, **known) as plain,
        ):
            known_at_s = None  # until a thousand offsets were trained, offsets are taken for samples
            for _ in range(seconds):
                await asyncio.gather(scaled.read(), plain.read())
                if known_at_s is None and scaled.account.records.value < 1:
                    known_at_s = elapsed_s()
                await asyncio.sleep(1.0 - (time.time() % 1.0))
            ratio = scaled.account.records.value
            told = scaled.history(), plain.history()
    if known_at_s is None:
        sys.exit(f"{job.topic}: the worker trained too little for the meter to learn from it")
    errors, unscaled = (
        truth.bin_errors(past.start_s - epoch_s, list(past.rates), BIN_S, after_s=known_at_s) for past in told
    )
    return {
        "windows": len(errors),
        "records_per_offset": ratio,
        "rate_error_max": max(errors),
        "rate_error_mean": statistics.fmean(errors),
        "rate_error_limit": 0.02,
        "rate_error_unscaled_mean": statistics.fmean(unscaled),
    }
