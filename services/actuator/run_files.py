"""What a pool of processes keeps on disk, so that its workers can be found by the next controller.

    <run_dir>/<job>/
      fence.json        what was asked for last, by whom, and who supervises now
      lock              held while anything is changed; its time is the supervisor's sign of life
      <worker>.json     pid and facts of one worker; there as long as the worker is
      <worker>.ready    made by the worker once it is ready
      logs/<worker>.log

Each file is replaced in one step: a reader sees the old content or the new, never half of it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from services.actuator.intent import Intent
from services.actuator.platform import WorkerFacts
from services.actuator.worker_process import WorkerProcess
from services.control.errors import PoolUnavailable

T = TypeVar("T")


class RunDirBusy(PoolUnavailable):
    """Another controller is changing the pool at this moment."""


@dataclass(frozen=True, slots=True)
class Supervisor:
    """The one pool object that starts and ends the workers."""

    pool: str
    process: WorkerProcess


@dataclass(frozen=True, slots=True)
class Fence:
    """What `fence.json` holds."""

    intent: Intent = field(default_factory=Intent)
    supervisor: Supervisor | None = None
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """What `<worker>.json` holds."""

    facts: WorkerFacts
    process: WorkerProcess
    version: Literal[1] = 1


_FENCE = TypeAdapter(Fence)
_RECORD = TypeAdapter(WorkerRecord)


class RunFiles:
    """Reads and writes the directory of one job's pool. Change nothing outside `lock()`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = directory / "lock"
        self._fence_file = directory / "fence.json"

    def make(self) -> None:
        """Make the directory, for its owner alone: logs may hold what others should not read."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other controllers out; raises RunDirBusy at once when one is in. Dying releases it."""
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunDirBusy(
                    f"{self._lock} is held by another controller; if this stays, look for one that is "
                    "stopped or hangs, and end it"
                ) from error
            yield
        finally:
            os.close(descriptor)

    def sign_of_life(self) -> int:
        """Changes as long as the supervisor is at work."""
        return self._lock.stat().st_mtime_ns

    def give_sign_of_life(self) -> None:
        """Said by the supervisor in every pass."""
        os.utime(self._lock)

    def fence(self) -> Fence:
        """What was asked for last and who supervises; nothing and nobody yet for a new pool."""
        return _read(self._fence_file, _FENCE) if self._fence_file.exists() else Fence()

    def write_fence(self, fence: Fence) -> None:
        """On the disk for good before this returns: fences and worker ids must survive a power cut."""
        _replace(self._fence_file, _FENCE.dump_json(fence, indent=1), durable=True)

    def records(self) -> tuple[WorkerRecord, ...]:
        """Every worker that was started and not yet forgotten, oldest first, whatever its pool calls it."""
        files = (path for path in self.directory.glob("*.json") if path != self._fence_file)
        found = (self._record(path) for path in files)
        records = [record for record in found if record is not None]
        return tuple(sorted(records, key=lambda record: (record.facts.started_at_s, record.facts.id)))

    def _record(self, path: Path) -> WorkerRecord | None:
        try:
            return _read(path, _RECORD)
        except FileNotFoundError:  # read without the lock, it may be forgotten in between
            return None

    def write_record(self, record: WorkerRecord) -> None:
        """Make the worker known to whoever comes after us."""
        _replace(self.directory / f"{record.facts.id}.json", _RECORD.dump_json(record, indent=1))

    def ready_file(self, worker: str) -> Path:
        """What the worker makes once it is ready."""
        return self.directory / f"{worker}.ready"

    def forget(self, worker: str) -> None:
        """The worker is gone. The record goes last, so that dying in between only repeats this."""
        self.ready_file(worker).unlink(missing_ok=True)
        (self.directory / f"{worker}.json").unlink(missing_ok=True)


def _read(path: Path, codec: TypeAdapter[T]) -> T:
    content = path.read_bytes()
    try:
        return codec.validate_json(content)
    except ValidationError as error:
        raise PoolUnavailable(
            f"{path} is damaged or of another version of Penstock ({error.error_count()} mistakes); "
            "restore it, or end the workers of this job and remove its directory"
        ) from error


def _replace(path: Path, content: bytes, *, durable: bool = False) -> None:
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(path)
