"""A worker's operating-system process, known by more than its pid, which the system gives out again."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from services.actuator.platform import Exit

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A process that leads a session of its own, so that what it started can be found and ended too."""

    pid: int
    identity: str
    """Tells this process from any other that ever has the same pid."""

    def poll(self) -> Exit | None:
        """How it ended, None while it runs. A child of ours is reaped, so ask once and remember.

        The identity is compared first: the pid may belong to a stranger by now, even to another
        child of ours, whose exit code is not for us to take.
        """
        seen = _look(self.pid)
        if seen is None or seen.identity != self.identity:
            return Exit(None)
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return Exit(None) if seen.zombie else None
        return Exit(os.waitstatus_to_exitcode(status)) if pid else None

    def alive(self) -> bool:
        """Whether it runs; a zombie does not. Reaps nothing."""
        seen = _look(self.pid)
        return seen is not None and seen.identity == self.identity and not seen.zombie

    def ask_to_leave(self) -> None:
        """SIGTERM to the process alone: it knows best how to end what it started."""
        if self.alive():
            _signal(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the process and to all that runs in its group."""
        if self.alive():
            _signal(-self.pid, signal.SIGKILL)

    def sweep(self) -> None:
        """Once it has ended: kill what it left running, which would go on holding its GPU.

        Not once another process has the pid: the system gives a pid to nobody as long as a
        session bears its number, so then there is nothing left.
        """
        seen = _look(self.pid)
        if seen is not None and (seen.identity != self.identity or not seen.zombie):
            return
        for pid in psutil.pids():
            if _session_of(pid) == self.pid:
                _signal(pid, signal.SIGKILL)


def process_of(pid: int) -> WorkerProcess | None:
    """The process that has `pid` now; None when there is none."""
    seen = _look(pid)
    return None if seen is None else WorkerProcess(pid, seen.identity)


@dataclass(frozen=True, slots=True)
class _Look:
    identity: str
    zombie: bool


def _look(pid: int) -> _Look | None:
    return _look_in_proc(pid) if sys.platform == "linux" else _look_with_psutil(pid)


def _look_in_proc(pid: int) -> _Look | None:
    """Linux: the start in ticks since boot. psutil's creation time moves when the clock is stepped."""
    try:
        stat = _PROC.joinpath(str(pid), "stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in brackets, which may itself hold spaces and brackets.
    fields = stat.rpartition(")")[2].split()
    state, started_ticks = fields[0], fields[19]
    return _Look(f"{_boot()}:{started_ticks}", zombie=state in "ZX")


def _look_with_psutil(pid: int) -> _Look | None:
    try:
        process = psutil.Process(pid)
        return _Look(f"{process.create_time():.3f}", zombie=process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return None


@cache
def _boot() -> str:
    return _PROC.joinpath("sys", "kernel", "random", "boot_id").read_text(encoding="ascii").strip()


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):  # gone, or another user's: not ours either way
        return None


def _signal(pid: int, signum: signal.Signals) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:  # it ended in between, which is what was wanted
        return
