"""A process that lets no server outlive its owner: `python -m services.embedded.guardian -- COMMAND...`

The owner holds the writing end of the guardian's standard input and never writes. However the
owner ends, SIGKILL included, the kernel closes that end; the guardian reads end-of-file, stops
the server and removes its directories. A parent-death signal in the server alone would not do: it
fires when the *thread* that started the server ends, and it removes nothing.

    owner ──(pipe)──► guardian ──(parent-death signal)──► server

| what happens                | what the guardian does                                        |
|-----------------------------|---------------------------------------------------------------|
| standard input ends         | SIGTERM to the server, SIGKILL after the grace, remove, exit 0 |
| the server ends             | exit with its code (128 + n after signal n); remove nothing,   |
|                             | because the owner may want to read or to start again           |
| SIGTERM or SIGINT           | pass it on to the server                                       |
| SIGKILL                     | nothing; the kernel kills the server (Linux only: see below)   |

Standard library only: it must start in milliseconds, and it runs as a plain file without `site`.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_CANNOT_START = 127
_REMOVAL_TRIES = 20


def main(arguments: Sequence[str]) -> int:
    """Guard one command until its owner or the command ends."""
    options = _parse(arguments)
    wakeup = _wake_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
    try:
        server = _start(options.command)
    except OSError as error:
        _tell_owner(f"error {options.command[0]}: {error.strerror}")
        return _CANNOT_START
    _tell_owner(f"pid {server.pid}")
    code = _watch(server, wakeup)
    if code is not None:
        return code if code >= 0 else 128 - code
    _stop(server, grace_s=options.grace_s)
    for directory in options.remove:
        _remove(directory)
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="guardian", description="Run COMMAND until standard input ends.")
    parser.add_argument(
        "--remove", action="append", default=[], type=Path, metavar="DIR", help="remove at the end"
    )
    parser.add_argument("--grace-s", type=float, default=5.0, help="between SIGTERM and SIGKILL")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    return parser.parse_args(arguments)


def _wake_on(*signals: signal.Signals) -> int:
    """A descriptor that becomes readable, with the number, when one of these signals comes."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, _noted)
    return reading


def _noted(_number: int, _frame: object) -> None:
    """Python writes the number to the wake-up descriptor; the loop acts on it."""


def _start(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """The server, in a process group of its own, its output going to our standard error."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=2,
        stderr=2,
        start_new_session=True,
        preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - this process has one thread
    )


def _die_with(guardian: int) -> Callable[[], None]:
    """What the child does before it becomes the server: ask to be killed when the guardian dies.

    Only Linux has this. Elsewhere (macOS) a guardian that is itself killed with SIGKILL leaves its
    server running until the owner stops it by its pid, which the owner knows.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        if prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != guardian:
            os._exit(_CANNOT_START)  # the guardian died before we could ask

    return ask


def _tell_owner(line: str) -> None:
    """One line on standard output; an owner that is gone by now is found out at end-of-file."""
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"{line}\n".encode())


def _watch(server: subprocess.Popen[bytes], wakeup: int) -> int | None:
    """The server's exit code when it ends first, None when the owner does."""
    while True:
        readable, _, _ = select.select([0, wakeup], [], [])
        if wakeup in readable:
            for number in os.read(wakeup, 64):
                if number in (signal.SIGTERM, signal.SIGINT):
                    server.send_signal(number)
            if server.poll() is not None:
                return server.returncode
        if 0 in readable and os.read(0, 4096) == b"":
            return None


def _stop(server: subprocess.Popen[bytes], *, grace_s: float) -> None:
    """Ask the server; then kill it, and what it started and left behind in its group."""
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(timeout=grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM for a group of zombies
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _remove(directory: Path) -> None:
    """Remove a tree; again when something was written to it meanwhile."""
    for _ in range(_REMOVAL_TRIES):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.05)
    sys.stderr.write(f"guardian: {directory} could not be removed\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
