"""One worker and one shard as processes, Kafka and decoding included."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import yaml
from confluent_kafka import Producer

from benchmarks.trainer_loops import BATCH, ROWS
from services.embedded.librdkafka import EmbeddedKafka
from services.embedded.redis import EmbeddedRedis
from services.samples.layout import Samples, encode
from services.settings import Settings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.stream.redis_ledger import RedisLedger
from services.trainer.net import NetShape
from shuffler.errors import NotOpened
from shuffler.ledger import Terms

JOB = "bench"
_PARTITIONS = 16


def trained_per_s(samples: Samples, shape: NetShape, *, device: str, half: bool = False) -> dict[str, float]:
    """Samples a second from the first lease that is done to the last, and CPU-seconds of each process."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kafka = stack.enter_context(EmbeddedKafka(brokers=1))
        redis = stack.enter_context(EmbeddedRedis())
        kafka.create_topic(JOB, _PARTITIONS)
        fill(kafka.bootstrap, samples)
        settings = _settings(kafka.bootstrap, redis.url, folder, shape, device=device, half=half)
        config = folder / "penstock.yaml"
        config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
        started = [
            stack.enter_context(started_process(folder, config, name, *options))
            for name, *options in (("shard",), ("worker", "--worker-id", "w0"))
        ]
        ledger = RedisLedger(
            stack.enter_context(closing(connect_sync(settings.redis))), Keys("penstock"), JOB, Terms()
        )
        return _watch(ledger, len(samples), [psutil.Process(process.pid) for process in started])


def _settings(kafka: str, redis: str, folder: Path, shape: NetShape, **other: Any) -> Settings:
    sample = shape.sample
    job = {
        "topic": JOB,
        "shuffle": {"start": "earliest"},
        "worker": {
            "device": other["device"],
            "batch": BATCH,
            "categorical": sample.categorical,
            "numeric": sample.numeric,
        },
        "parameters": {
            "dim": shape.dim,
            "hidden": shape.hidden,
            "rows_max": ROWS,
            "half": other["half"],
            "directory": str(folder),
        },
    }
    return Settings.model_validate(
        {"kafka": {"bootstrap": kafka}, "redis": {"url": redis}, "jobs": {JOB: job}}
    )


def started_process(folder: Path, config: Path, name: str, *options: str) -> subprocess.Popen[bytes]:
    """`penstock NAME`, ready; killed at the end of its block."""
    ready = folder / f"{'-'.join((name, *options))}.ready"
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = _Ended(
        [sys.executable, "-m", "services.cli.main", name, "--job", JOB, "--config", str(config), *options],
        env={**os.environ, **one_thread, "PENSTOCK_READY_FILE": str(ready)},
        stderr=subprocess.DEVNULL,
    )
    while not ready.exists():
        assert process.poll() is None, f"{name} did not start"
        time.sleep(0.05)
    return process


class _Ended(subprocess.Popen[bytes]):
    """A process that is killed at the end of its block."""

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()


def fill(bootstrap: str, samples: Samples) -> None:
    """All samples into the topic, evenly."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 2})
    for number, value in enumerate(encode(samples)):
        producer.produce(JOB, value, partition=number % _PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


def _watch(ledger: RedisLedger, count: int, processes: list[psutil.Process]) -> dict[str, float]:
    first: tuple[float, int, list[float]] | None = None
    while True:
        now_s = time.perf_counter()
        try:
            trained = ledger.progress().trained
        except NotOpened:
            trained = 0
        used_s = [sum(process.cpu_times()[:2]) for process in processes]
        if trained and first is None:
            first = (now_s, trained, used_s)
        if trained >= count and first is not None:
            between = trained - first[1]
            spent_s = [now - then for now, then in zip(used_s, first[2], strict=True)]
            return {
                "per_s": between / (now_s - first[0]),
                "shard_cpu_us": 1e6 * spent_s[0] / between,
                "worker_cpu_us": 1e6 * spent_s[1] / between,
            }
        time.sleep(0.02)
