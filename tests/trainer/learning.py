"""Real shards and workers that learn, as processes, on a topic of clicks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import yaml
from confluent_kafka import Producer

from services.samples.layout import Ids, Samples, encode
from services.settings import Settings
from services.store.connect import connect_sync
from services.store.keys import Keys
from services.traffic.clicks import ClickMaker
from services.trainer.ps.client import ParameterClient
from services.trainer.ps.directory import RedisDirectory
from tests.stream.streams import JOB
from tests.waiting import eventually

PENSTOCK = (sys.executable, "-m", "services.cli.main")


class Process:
    """One process of ours, its log, and whether it is ready."""

    def __init__(self, process: subprocess.Popen[str], ready: Path, log: Path) -> None:
        self.process = process
        self._ready = ready
        self._log = log

    def wait_until_ready(self) -> Process:
        eventually(self._is_ready, within_s=90, what="the process is ready")
        return self

    def _is_ready(self) -> bool:
        code = self.process.poll()
        if code is not None:
            raise RuntimeError(f"it ended with {code} before it was ready:\n{self.said()}")
        return self._ready.exists()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It does nothing meanwhile: what is seen stays so."""
        self.process.send_signal(signal.SIGSTOP)
        stopped = psutil.Process(self.process.pid)
        eventually(lambda: stopped.status() == psutil.STATUS_STOPPED, every_s=0.001, what="it stopped")
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def ask_to_leave(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8")


class Cluster:
    """Starts `penstock shard` and `penstock worker` with one configuration; ends what is left of them."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self.settings = settings
        self.directory = self._directory = directory
        directory.mkdir(exist_ok=True)
        self._config = directory / "penstock.yaml"
        self._config.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
        self._started: list[Process] = []

    def shard(self, number: int = 0, *options: str) -> Process:
        return self._start("shard", "--shard", str(number), *options)

    def worker(self, name: str, *options: str) -> Process:
        return self._start("worker", "--worker-id", name, *options)

    def _start(self, command: str, *options: str) -> Process:
        name = f"{command}-{len(self._started)}"
        ready, log = self._directory / f"{name}.ready", self._directory / f"{name}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [*PENSTOCK, command, "--job", JOB, "--config", str(self._config), *options],
                env={**os.environ, "PENSTOCK_READY_FILE": str(ready)},
                stderr=output,
                text=True,
            )
        self._started.append(Process(process, ready, log))
        return self._started[-1]

    def dense(self) -> list[float]:
        """The dense part as shard 0 has it now."""
        return self.heard_of_shard()[0]

    def heard_of_shard(self) -> tuple[list[float], int]:
        """The dense part as shard 0 has it now, and how many batches it has taken in."""
        parameters = self.settings.jobs[JOB].parameters
        with connect_sync(self.settings.redis) as store:
            directory = RedisDirectory(store, Keys(self.settings.redis.prefix), JOB)
            client = ParameterClient(
                directory, shards=parameters.shards, row_size=1 + parameters.dim, patient=lambda: False
            )
            try:
                dense = client.pull(client.keyed(np.empty((0, 1), np.uint64))).dense
                return [float(number) for number in dense], client.version
            finally:
                client.close()

    def end(self) -> None:
        for started in self._started:
            started.kill()


def send_clicks(settings: Settings, count: int, *, maker: ClickMaker, among: bytes | None = None) -> int:
    """Clicks by key, and one poisoned message if asked; how many messages in all."""
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap, "log_level": 2, "linger.ms": 5})
    for key, value in maker.make(count, at_s=time.time(), simulated_s=0.0):
        producer.produce(settings.jobs[JOB].topic, value, key=key)
        producer.poll(0)
    if among is not None:
        producer.produce(settings.jobs[JOB].topic, among)
    assert producer.flush(30) == 0
    return count + (among is not None)


def send_one_of_each_user(settings: Settings, count: int) -> Ids:
    """Samples whose first id nobody else has, so that each has a row of its own; the ids of all."""
    shape = settings.jobs[JOB].worker
    ids = np.arange(count, dtype=np.uint64)[:, None].repeat(shape.categorical, axis=1)
    ids[:, 1:] %= np.uint64(50)
    labels, at_s = (np.arange(count) % 2).astype(np.float32), np.full(count, time.time())
    samples = Samples(labels, at_s, ids, np.full((count, shape.numeric), 0.5, np.float32))
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap, "log_level": 2, "linger.ms": 5})
    for number, value in enumerate(encode(samples)):
        producer.produce(settings.jobs[JOB].topic, value, key=str(number))
        producer.poll(0)
    assert producer.flush(30) == 0
    return ids
