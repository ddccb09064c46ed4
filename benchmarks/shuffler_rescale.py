"""Rescaling under load, 4 -> 8 -> 3 workers: leases beside Kafka's own two group protocols."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
WARM_UP_S = 10.0
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


@dataclass(frozen=True, slots=True)
class Run:
    """What every worker wrote down, its start first, and since when it counts."""

    workers: list[list[dict[str, Any]]]
    from_s: float
    joiners_from: int
    """The workers from this one on joined while the others trained."""

    def batches(self) -> list[dict[str, Any]]:
        """All that was trained, in the order in which it was handed to the workers."""
        return sorted((b for worker in self.workers for b in worker[1:]), key=lambda b: b["given_s"])

    def joins_s(self) -> list[float]:
        """Of every worker that joined: from being ready to having its first records in hand."""
        joiners = self.workers[self.joiners_from :]
        return [worker[1]["given_s"] - worker[0]["ready_s"] for worker in joiners if len(worker) > 1]

    def ages_s(self) -> list[float]:
        """How old every sample was when it was trained."""
        return [
            batch["done_s"] - stamp / 1000
            for batch in self.batches()
            if batch["done_s"] >= self.from_s
            for stamps in batch["parts"].values()
            for stamp in stamps
        ]

    def gaps_s(self, *, backlog: int) -> Iterator[float]:
        """How long a partition waited each time until something of it was taken, counted from when it
        had a backlog of so many samples that nobody had taken, and from when it was last taken from."""
        batches = self.batches()
        untaken: dict[str, list[int]] = {}
        for batch in batches:
            for partition, stamps in batch["parts"].items():
                untaken.setdefault(partition, []).extend(stamps)
        for several in untaken.values():
            several.sort()
        last_s: dict[str, float] = {}
        for batch in batches:
            given_s = batch["given_s"]
            for partition, stamps in batch["parts"].items():
                waiting = untaken[partition]
                if partition in last_s and given_s >= self.from_s and len(waiting) >= backlog:
                    yield max(0.0, given_s - max(last_s[partition], waiting[backlog - 1] / 1000))
                for stamp in stamps:
                    waiting.pop(bisect_left(waiting, stamp))
                last_s[partition] = given_s


def measure(
    bootstrap: str,
    redis_url: str,
    mode: str,
    *,
    topic: str,
    phase_s: float,
    phases: Sequence[int] = PHASES,
    fresh_within_s: float = LATE_S,
) -> Run:
    """One rescale."""
    load = _Load(bootstrap, topic)
    settings = _settings(bootstrap, redis_url, mode, topic, fresh_within_s)
    with _crew(settings, "bench", size_max=max(phases)) as crew:
        crew.await_loaded()
        load.start()
        began_s = measured_from_s = time.time()
        for place, workers in enumerate(phases):
            crew.resize(workers)
            while crew.ready() < max(phases[: place + 1]) and time.time() - began_s < 120:
                time.sleep(0.05)
            rate_per_s = workers * BATCH / STEP_S
            if place == 0:
                # A group takes seconds to form, and a new broker to keep its first commit: that is not the
                # rescale, and what came meanwhile is to be trained before it.
                load.rate_per_s = rate_per_s / 2
                time.sleep(WARM_UP_S)
            load.rate_per_s = UTILISATION * rate_per_s
            if place == 0:
                time.sleep(2.0)
                measured_from_s = time.time()
            time.sleep(phase_s)
        load.over.set()
        load.join()
        time.sleep(2.0)
        crew.end()
        return Run(list(crew.records()), measured_from_s, joiners_from=phases[0])


def _settings(bootstrap: str, redis_url: str, mode: str, topic: str, fresh_within_s: float) -> Settings:
    job = {
        "topic": topic,
        "group": f"group-{topic}",
        "worker": {"batch": BATCH},
        "slo": {"fresh_within_s": fresh_within_s},
        "shuffle": MODES[mode],
        "pool": {"drain_s": 17.0},
    }
    return Settings.model_validate(
        {
            "kafka": {"bootstrap": bootstrap},
            "redis": {"url": redis_url, "prefix": topic},
            "jobs": {"bench": job},
        }
    )


def figures(runs: Sequence[Run]) -> dict[str, float]:
    """What several rescales of one kind came to: how late, how long a gap, how soon joiners trained."""
    ages = [age for run in runs for age in run.ages_s()]
    joins = [join for run in runs for join in run.joins_s()]
    found = {
        "samples": float(len(ages)),
        "later_than_1s": float(sum(age > LATE_S for age in ages)),
        "later_than_1s_share": sum(age > LATE_S for age in ages) / max(1, len(ages)),
        "median_age_s": median(ages) if ages else 0.0,
        "worst_age_s": max(ages, default=0.0),
        "longest_gap_with_a_batch_waiting_s": _longest(runs, backlog=BATCH),
        "longest_gap_with_a_sample_waiting_s": _longest(runs, backlog=1),
    }
    if joins:
        found |= {
            "join_to_first_record_s": median(joins),
            "join_to_first_record_worst_s": max(joins),
            "joiners_that_trained": float(len(joins)),
        }
    return found


def _longest(runs: Sequence[Run], *, backlog: int) -> float:
    return max((gap for run in runs for gap in run.gaps_s(backlog=backlog)), default=0.0)
