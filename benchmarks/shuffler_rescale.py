"""Rescaling under load, 4 -> 8 -> 3 workers: leases beside Kafka's own two group protocols."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from confluent_kafka import Producer

from services.settings import Settings

PARTITIONS = 8
STEP_S, BATCH = 0.1, 50
UTILISATION = 0.9
PHASES = (4, 8, 3)
LATE_S = 1.0
MODES = {
    "leases": {"mode": "leases"},
    "cooperative": {"mode": "group", "group_protocol": "cooperative-sticky"},
    "consumer": {"mode": "group", "group_protocol": "consumer"},
}


class _Load(Thread):
    """Samples at a rate that may be changed, evenly over the partitions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.rate_per_s = 0.0
        self.over = Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2})
        self._topic = topic

    def run(self) -> None:
        sent, due, last_s = 0, 0.0, time.monotonic()
        while not self.over.wait(0.005):
            now_s = time.monotonic()
            due += (now_s - last_s) * self.rate_per_s
            last_s = now_s
            while sent < due:
                self._producer.produce(self._topic, b"x" * 160, partition=sent % PARTITIONS)
                sent += 1
            self._producer.poll(0)
        self._producer.flush(10)


class _Crew:
    """Worker processes, and what they wrote down.

    All are loaded from the start and join when told: on two cores, what starting an interpreter takes
    from those that train would be counted as the rescale's, and on a cluster it is another machine's.
    """

    def __init__(self, settings: Settings, job: str, directory: Path, *, size_max: int) -> None:
        self._told = {"settings": settings.model_dump(mode="json"), "job": job, "step_s": STEP_S}
        self._directory = directory
        self._waiting = [self._load(f"w{number}") for number in range(1, size_max + 1)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._leavers: list[subprocess.Popen[bytes]] = []

    def _load(self, name: str) -> subprocess.Popen[bytes]:
        told = {**self._told, "worker": name, "record": str(self._directory / f"{name}.jsonl")}
        command = [sys.executable, "-m", "benchmarks.shuffler_worker", json.dumps(told)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def await_loaded(self) -> None:
        for process in self._waiting:
            if process.stdout is None or process.stdout.readline() != b"loaded\n":
                raise RuntimeError("a worker of the benchmark did not start")

    def resize(self, size: int) -> None:
        while len(self._processes) < size:
            process = self._waiting.pop(0)
            if process.stdin is not None:
                process.stdin.close()  # what it waits for
            self._processes.append(process)
        for process in self._processes[size:]:
            process.send_signal(signal.SIGTERM)
        self._leavers += self._processes[size:]
        self._processes = self._processes[:size]

    def ready(self) -> int:
        return sum(path.stat().st_size > 0 for path in self._directory.glob("*.jsonl"))

    def end(self) -> None:
        leavers = [*self._processes, *self._leavers]
        self.resize(0)
        for process in self._waiting:
            process.kill()
            process.wait()
        for process in leavers:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def records(self) -> Iterator[list[dict[str, Any]]]:
        for path in sorted(self._directory.glob("*.jsonl")):
            yield [json.loads(line) for line in path.read_text().split("\n")[:-1]]


@contextmanager
def _crew(settings: Settings, job: str, *, size_max: int) -> Iterator[_Crew]:
    with TemporaryDirectory() as directory:
        crew = _Crew(settings, job, Path(directory), size_max=size_max)
        try:
            yield crew
        finally:
            crew.end()


def measure(
    bootstrap: str, redis_url: str, mode: str, *, topic: str, phase_s: float, phases: Sequence[int] = PHASES
) -> dict[str, float]:
    """One rescale: how late, how long a gap, how soon the new workers trained."""
    job = {
        "topic": topic,
        "group": f"group-{topic}",
        "worker": {"batch": BATCH},
        "slo": {"fresh_within_s": LATE_S},
        "shuffle": MODES[mode],
        "pool": {"drain_s": 15.0},
    }
    settings = Settings.model_validate(
        {
            "kafka": {"bootstrap": bootstrap},
            "redis": {"url": redis_url, "prefix": topic},
            "jobs": {"bench": job},
        }
    )
    load = _Load(bootstrap, topic)
    with _crew(settings, "bench", size_max=max(phases)) as crew:
        crew.await_loaded()
        load.start()
        began_s = measured_from_s = time.time()
        for place, workers in enumerate(phases):
            crew.resize(workers)
            while crew.ready() < max(phases[: place + 1]) and time.time() - began_s < 120:
                time.sleep(0.05)
            load.rate_per_s = UTILISATION * workers * BATCH / STEP_S
            if place == 0:
                time.sleep(6.0)  # a group takes seconds to form: that is not the rescale
                measured_from_s = time.time()
            time.sleep(phase_s)
        load.over.set()
        load.join()
        time.sleep(2.0)
        crew.end()
        return _figures(list(crew.records()), measured_from_s, joiners_from=phases[0])


def _figures(workers: list[list[dict[str, Any]]], from_s: float, *, joiners_from: int) -> dict[str, float]:
    batches = sorted((b for worker in workers for b in worker[1:]), key=lambda b: b["done_s"])
    ages = [
        batch["done_s"] - stamp / 1000
        for batch in batches
        if batch["done_s"] >= from_s
        for stamps in batch["parts"].values()
        for stamp in stamps
    ]
    joins = [
        worker[1]["given_s"] - worker[0]["ready_s"] for worker in workers[joiners_from:] if len(worker) > 1
    ]
    figures = {
        "samples": float(len(ages)),
        "later_than_1s": float(sum(age > LATE_S for age in ages)),
        "later_than_1s_share": sum(age > LATE_S for age in ages) / max(1, len(ages)),
        "median_age_s": median(ages) if ages else 0.0,
        "worst_age_s": max(ages, default=0.0),
        "longest_gap_s": _longest_gap(batches, from_s),
    }
    if joins:
        figures |= {"join_to_first_record_s": median(joins), "joiners_that_trained": float(len(joins))}
    return figures


def _longest_gap(batches: list[dict[str, Any]], from_s: float) -> float:
    """The longest that a partition waited for its next sample to be taken while it had one."""
    last: dict[str, float] = {}
    longest = 0.0
    for batch in sorted(batches, key=lambda b: b["given_s"]):
        for partition, stamps in batch["parts"].items():
            if partition in last and batch["given_s"] >= from_s:
                since_s = max(last[partition], min(stamps) / 1000)
                longest = max(longest, batch["given_s"] - since_s)
            last[partition] = batch["given_s"]
    return longest
