"""Worker processes of one job, what they wrote down, and whether that keeps the promises."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from services.settings import Settings
from services.stream.offsets import end_offsets
from shuffler.lease import Progress
from tests.stream.recording_worker import die_at_the_turn, train
from tests.stream.streams import JOB, committed, leases_out, progress_of
from tests.waiting import eventually

_FORKS = multiprocessing.get_context("forkserver")
# Each worker is a process of its own, forked from one that has imported everything and begun nothing.
_FORKS.set_forkserver_preload(["pytest", "tests.stream.recording_worker"])


class Crew:
    """Worker processes that come, go, die and freeze."""

    def __init__(
        self,
        settings: Settings,
        directory: Path,
        *,
        step_s: float,
        poison: str,
        constants: Mapping[str, float] | None,
    ) -> None:
        """`constants` are values of our modules that take too long for a test, by their full name."""
        self._told = {
            "settings": settings.model_dump(mode="json"),
            "job": JOB,
            "step_s": step_s,
            "poison": poison,
            "constants": dict(constants or {}),
        }
        self.settings = settings
        self._directory = directory
        self.processes: dict[str, BaseProcess] = {}

    def hire(self, *, trains: bool = False, **other: float | str) -> str:
        """Start a worker; its name. Returns once it can be dismissed, or once it has trained something.

        `other` is what it is told and the others are not.
        """
        worker = f"w{len(self.processes) + 1}"
        record = self._directory / f"{worker}.trained"
        told = {**self._told, **other, "worker": worker, "record": str(record)}
        self.processes[worker] = _FORKS.Process(target=train, args=(told,), name=worker, daemon=True)
        self.processes[worker].start()
        eventually(record.exists, within_s=60, what=f"{worker} has begun")
        if trains:
            self.wait_until_training(worker)
        return worker

    def wait_until_training(self, worker: str) -> None:
        """Until the worker has written something down."""
        record = self._directory / f"{worker}.trained"
        eventually(lambda: record.stat().st_size, within_s=60, what=f"{worker} trains")

    def signal(self, worker: str, number: signal.Signals) -> None:
        pid = self.processes[worker].pid
        assert pid is not None
        os.kill(pid, number)

    def freeze_mid_lease(self, worker: str) -> None:
        """SIGSTOP at a moment at which the worker holds a lease."""

        def frozen_with_a_lease() -> bool:
            self.signal(worker, signal.SIGSTOP)
            if leases_out(self.settings, worker):
                return True
            self.signal(worker, signal.SIGCONT)
            return False

        eventually(frozen_with_a_lease, within_s=60, what=f"{worker} holds a lease")

    def dismiss(self, worker: str) -> int:
        """SIGTERM, unless it has ended; the exit code."""
        if self.processes[worker].is_alive():
            self.signal(worker, signal.SIGTERM)
        return self.ended(worker)

    def kill(self, worker: str) -> None:
        self.processes[worker].kill()
        self.processes[worker].join()

    def ended(self, worker: str) -> int:
        """The exit code, once it has ended."""
        self.processes[worker].join(60)
        code = self.processes[worker].exitcode
        assert code is not None, f"{worker} did not end"
        return code

    def trained(self) -> Counter[tuple[int, int]]:
        """Every sample that any of them wrote down, and how often."""
        seen: Counter[tuple[int, int]] = Counter()
        for record in self._directory.glob("*.trained"):
            # A worker that was killed while writing leaves half a line; what it says is not done.
            for line in record.read_text().split("\n")[:-1]:
                partition, offset = line.split()
                seen[int(partition), int(offset)] += 1
        return seen

    def repeated(self) -> set[tuple[int, int]]:
        """The samples that were written down more than once."""
        return {sample for sample, times in self.trained().items() if times > 1}

    def end(self) -> None:
        for worker, process in self.processes.items():
            if process.is_alive():
                self.signal(worker, signal.SIGCONT)
                process.kill()
            process.join()

    def finish(self, samples: set[tuple[int, int]], *, lost: int = 0) -> Progress:
        """Everything is trained and all leave; where the ledger stands then.

        Each of `samples` was trained; the watermark, the commit and the ends of Kafka's partitions agree.
        """
        ends = end_offsets(self.settings.kafka.client(), self.settings.jobs[JOB].topic)
        eventually(
            lambda: progress_of(self.settings).watermarks == ends, within_s=60, what=f"trained up to {ends}"
        )
        codes = {worker: self.dismiss(worker) for worker, p in self.processes.items() if p.is_alive()}
        assert set(codes.values()) <= {0}, codes
        progress = progress_of(self.settings)
        missing = samples - set(self.trained())
        assert not missing, f"{len(missing)} samples were never trained, as {sorted(missing)[:5]}"
        assert progress.watermarks == progress.ends == ends
        assert committed(self.settings, len(ends)) == ends
        assert (progress.lost, progress.out) == (lost, 0)
        return progress


@contextmanager
def at_work(
    settings: Settings,
    directory: Path,
    *,
    workers: int = 2,
    step_s: float = 0.01,
    poison: str = "none",
    constants: Mapping[str, float] | None = None,
) -> Iterator[Crew]:
    """A crew that has begun to look for work, until the end of the block."""
    crew = Crew(settings, directory, step_s=step_s, poison=poison, constants=constants)
    try:
        for _ in range(workers):
            crew.hire()
        yield crew
    finally:
        crew.end()


def killed_at_its_turn(settings: Settings) -> int | None:
    """Have a worker process die while it has the turn to commit; its exit code."""
    victim = _FORKS.Process(target=die_at_the_turn, args=(settings, JOB), name="killed", daemon=True)
    victim.start()
    victim.join(60)
    return victim.exitcode


def every_sample(counts: Mapping[int, int]) -> set[tuple[int, int]]:
    return {(partition, offset) for partition, count in counts.items() for offset in range(count)}
