"""The log files of a pool's workers, bounded in number and in size."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

_TAIL_BYTES = 4096
_LINE_MAX = 200


class WorkerLogs:
    """One file per worker, `<worker>.log`, with all that it wrote to stdout and stderr.

    Workers hold their files open and outlive controllers, so a log cannot be rotated by renaming:
    one that grows past `bytes_max` is copied to `<worker>.log.1` and emptied. Workers append, so
    they go on at the new end; what is written between the copy and the cut is lost.
    """

    def __init__(self, directory: Path, *, keep: int = 20, bytes_max: int = 16 * 1024 * 1024) -> None:
        self._directory = directory
        self._keep = keep
        self._bytes_max = bytes_max

    def path(self, worker: str) -> Path:
        """Where `worker` writes."""
        return self._directory / f"{worker}.log"

    def open(self, worker: str) -> int:
        """A file descriptor for the worker's output. The caller closes it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        return os.open(self.path(worker), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def last_line(self, worker: str) -> str:
        """The last line that says anything, cut to a length that fits a message; empty without one."""
        try:
            with self.path(worker).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                lines = log.read().decode("utf-8", errors="replace").split("\n")
        except FileNotFoundError:
            return ""
        spoken = (line.strip() for line in reversed(lines))
        last = next((line for line in spoken if line), "")
        return "".join(character if character.isprintable() else " " for character in last)[:_LINE_MAX]

    def trim(self, workers: Collection[str]) -> None:
        """Cut the logs of these workers where they have grown too long."""
        for worker in workers:
            path = self.path(worker)
            if path.exists() and path.stat().st_size > self._bytes_max:
                self._cut(path)

    def prune(self, *, alive: Collection[str]) -> None:
        """Remove the logs of workers long gone, but for the `keep` that ended last."""
        if not self._directory.exists():
            return
        gone = [path for path in self._directory.glob("*.log") if path.stem not in alive]
        gone.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for path in gone[self._keep :]:
            path.unlink(missing_ok=True)
            path.with_suffix(".log.1").unlink(missing_ok=True)

    def _cut(self, path: Path) -> None:
        with path.open("rb") as log:
            log.seek(-self._bytes_max, os.SEEK_END)
            latest = log.read(self._bytes_max)
        path.with_suffix(".log.1").write_bytes(latest)
        os.truncate(path, 0)
