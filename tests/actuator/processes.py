"""Which processes of a pool really run, found without asking the pool."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

FAKE_WORKER = (sys.executable, "-S", "-E", str(Path(__file__).with_name("fake_worker.py")))


class Stranger:
    """A process that is none of the pool's, and answers as long as nobody has signalled it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ("/bin/cat",), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.pid = self._process.pid

    def answers(self) -> bool:
        """Whether it is unharmed. A signal sent before is delivered before it can answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise AssertionError("it was started with pipes")
        try:
            stdin.write(b"still there?\n")
            stdin.flush()
        except BrokenPipeError:
            return False
        return stdout.readline() == b"still there?\n"

    def end(self) -> int:
        """End it; its exit code, which nobody else may have taken."""
        self._process.kill()
        self._process.communicate()
        return self._process.returncode


def running(run_dir: Path) -> dict[str, int]:
    """The live workers started for this directory, those still at the gate included: id to pid.

    Two processes for one worker are an error: a start happened twice.
    """
    found: dict[str, int] = {}
    for process in psutil.process_iter():
        ready_file = Path(_environment(process).get("PENSTOCK_READY_FILE", "/"))
        if run_dir.resolve() not in ready_file.parents or not _leads_a_session(process.pid):
            continue
        if ready_file.stem in found:
            raise AssertionError(f"worker {ready_file.stem} runs twice")
        found[ready_file.stem] = process.pid
    return found


def zombies() -> list[int]:
    """Children of this process that ended and were not reaped."""
    return [child.pid for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):  # gone, a zombie, or another user's
        return {}


def _leads_a_session(pid: int) -> bool:
    """A worker does; what it started does not."""
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False
