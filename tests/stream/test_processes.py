"""Worker processes that come, go, die and freeze: every sample is trained, repeats stay in bounds."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from services.settings import Settings
from tests.servers.kafka import KafkaUnderTest
from tests.stream.streams import JOB, Traffic, committed, produce, progress_of, settings_for, trained_all
from tests.waiting import eventually

TTL_S = 1.5


class Crew:
    """Worker processes of one job, and what they wrote down."""

    def __init__(self, settings: Settings, directory: Path, *, step_s: float, poison: str = "none") -> None:
        self._poison = poison
        self._settings = settings
        self._directory = directory
        self._step_s = step_s
        self._hired = 0
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def hire(self) -> str:
        """Start a worker; its name. Returns before it is ready."""
        self._hired += 1
        worker = f"w{self._hired}"
        told = {
            "settings": self._settings.model_dump(mode="json"),
            "job": JOB,
            "worker": worker,
            "record": str(self._directory / f"{worker}.trained"),
            "ready": str(self._directory / f"{worker}.ready"),
            "step_s": self._step_s,
            "poison": self._poison,
        }
        self.processes[worker] = subprocess.Popen(
            [sys.executable, "-m", "tests.stream.recording_worker", json.dumps(told)]
        )
        return worker

    def wait_until_training(self, worker: str) -> None:
        """Until the worker has written something down."""
        record = self._directory / f"{worker}.trained"
        eventually(lambda: record.exists() and record.stat().st_size, within_s=60, what=f"{worker} trains")

    def dismiss(self, worker: str) -> int:
        """SIGTERM, unless it has ended; the exit code."""
        process = self.processes[worker]
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        return process.wait(60)

    def kill(self, worker: str) -> None:
        self.processes[worker].kill()
        self.processes[worker].wait()

    def trained(self) -> Counter[tuple[int, int]]:
        """Every sample that any of them wrote down, and how often."""
        seen: Counter[tuple[int, int]] = Counter()
        for record in self._directory.glob("*.trained"):
            # A worker that was killed while writing leaves half a line; what it says is not done.
            for line in record.read_text().split("\n")[:-1]:
                partition, offset = line.split()
                seen[int(partition), int(offset)] += 1
        return seen

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


def every_sample(counts: dict[int, int]) -> set[tuple[int, int]]:
    return {(partition, offset) for partition, count in counts.items() for offset in range(count)}


@pytest.mark.parametrize("seed", [1, 2])
def test_joins_leaves_a_kill_and_a_zombie_lose_nothing(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    topic = kafka.new_topic(4)
    settings = settings_for(
        kafka.bootstrap, redis_url, topic, group, shuffle={"lease_ttl_s": TTL_S, "lease_s": 0.4}
    )
    crew = Crew(settings, tmp_path, step_s=0.02)
    try:
        with Traffic(kafka.bootstrap, topic, weights=(18, 8, 3, 1), rate_per_s=1_500) as traffic:
            killed = havoc(crew, settings, chance)
        counts, samples = traffic.counts, sum(traffic.counts.values())
        trained_all(settings, samples)
        codes = {worker: crew.dismiss(worker) for worker in crew.processes}
    finally:
        crew.end()

    seen, progress = crew.trained(), progress_of(settings)
    assert codes == {worker: -signal.SIGKILL if worker == killed else 0 for worker in codes}
    assert set(seen) == every_sample(counts), "a sample was never trained"
    assert progress.trained == samples
    assert progress.lost == 0
    repeats = sum(seen.values()) - samples
    assert repeats <= progress.repeated, "more was repeated than the leases that were lost"
    assert progress.watermarks == progress.ends == counts
    assert committed(settings, len(counts)) == counts


def havoc(crew: Crew, settings: Settings, chance: random.Random) -> str:
    """One worker is killed, one freezes until its leases have lapsed, others join and leave.

    Who was killed.
    """
    killed, frozen, *others = (crew.hire() for _ in range(3))
    for worker in (killed, frozen, *others):
        crew.wait_until_training(worker)
    crew.kill(killed)
    crew.processes[frozen].send_signal(signal.SIGSTOP)
    for _ in range(chance.randint(2, 3)):
        joined = crew.hire()
        crew.wait_until_training(joined)
        others.append(joined)
        leaver = others.pop(chance.randrange(len(others)))
        assert crew.dismiss(leaver) == 0
    eventually(lambda: progress_of(settings).repeated > 0, what="the silent workers' leases return")
    crew.processes[frozen].send_signal(signal.SIGCONT)
    return killed


def test_a_sample_that_kills_its_workers_is_given_up_and_the_rest_is_trained(
    kafka: KafkaUnderTest, redis_url: str, group: str, tmp_path: Path
) -> None:
    topic = kafka.new_topic(1)
    produce(kafka.bootstrap, topic, {0: 200})
    shuffle = {"lease_ttl_s": 0.6, "lapses_max": 2}
    settings = settings_for(kafka.bootstrap, redis_url, topic, group, shuffle=shuffle)
    crew = Crew(settings, tmp_path, step_s=0.01, poison="0:120")
    try:
        for _ in range(2):
            victim = crew.hire()
            assert crew.processes[victim].wait(60) == 3
        survivor = crew.hire()
        eventually(lambda: progress_of(settings).watermarks == {0: 200}, within_s=60, what="the end")
        code = crew.dismiss(survivor)
    finally:
        crew.end()

    progress = progress_of(settings)
    given_up = {offset for start, end in progress.quarantined[0] for offset in range(start, end)}
    assert code == 0
    assert 120 in given_up
    assert {offset for _, offset in crew.trained()} | given_up == set(range(200))
    assert progress.trained == 200 - len(given_up)
    assert committed(settings, 1) == {0: 200}
