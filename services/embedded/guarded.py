"""The owner's side of the guardian: a child process that ends when this process does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path

from services.embedded import guardian
from services.embedded.errors import NotRunning, StartFailed

_LOG_TAIL_BYTES = 16_384


class GuardedProcess:
    """A server under a guardian. Starts in tens of milliseconds; never outlives this process.

    It is bound to the process, not to the thread that started it. Everything the server prints
    goes to `log`. Starting again after it ended is allowed, and appends to the log.
    """

    def __init__(
        self, command: Sequence[str], *, log: Path, remove: Sequence[Path] = (), grace_s: float = 5.0
    ) -> None:
        self._command = tuple(command)
        self._log = log
        self._remove = tuple(remove)
        self._grace_s = grace_s
        self._guardian: subprocess.Popen[bytes] | None = None
        self._leash: int | None = None
        self._pid: int | None = None

    @property
    def alive(self) -> bool:
        """Whether the server runs. Its guardian ends as soon as it does."""
        return self._guardian is not None and self._guardian.poll() is None

    @property
    def pid(self) -> int:
        """The server's own process id. Raises NotRunning before the first start."""
        if self._pid is None:
            raise NotRunning(f"{self._command[0]} was not started")
        return self._pid

    @property
    def guardian_pid(self) -> int:
        """The guardian's process id. Raises NotRunning before the first start."""
        if self._guardian is None:
            raise NotRunning(f"{self._command[0]} was not started")
        return self._guardian.pid

    @property
    def exit_code(self) -> int | None:
        """The server's exit code (128 + n after signal n), None while it runs or was never started."""
        return None if self._guardian is None else self._guardian.poll()

    def start(self) -> None:
        """Start the server. Does nothing while it runs. Raises StartFailed when it cannot be run."""
        if self.alive:
            return
        self.let_go()
        watched, self._leash = os.pipe()  # neither end is inherited, save by fork: see below
        try:
            with self._log.open("ab") as log:
                self._guardian = subprocess.Popen(
                    self._guardian_command(),
                    stdin=watched,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is the owner's to handle, not the server's
                )
        finally:
            os.close(watched)
        _held.add(self)
        self._pid = self._read_pid(self._guardian)

    def stop(self) -> None:
        """End the server and remove its directories. Does nothing when it is not running."""
        if self._guardian is None:
            return
        self.let_go()
        try:
            self._guardian.wait(timeout=self._grace_s + 5.0)
        except subprocess.TimeoutExpired:
            self._guardian.kill()  # on Linux the server dies with it
            self._guardian.wait()
        if self._guardian.returncode == -signal.SIGKILL and not sys.platform.startswith("linux"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)  # no parent-death signal did it

    def wait(self, *, within_s: float) -> int:
        """The exit code of a command that ends by itself. Raises TimeoutError."""
        if self._guardian is None:
            raise NotRunning(f"{self._command[0]} was not started")
        try:
            return self._guardian.wait(timeout=within_s)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{self._command[0]} still runs after {within_s:g} s") from error

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that the server printed; empty when it printed nothing."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _guardian_command(self) -> list[str]:
        # Isolated and without site: half the start-up time, and independent of the caller's paths.
        command = [sys.executable, "-I", "-S", guardian.__file__, "--grace-s", str(self._grace_s)]
        for directory in self._remove:
            command += ["--remove", str(directory)]
        return [*command, "--", *self._command]

    def _read_pid(self, started: subprocess.Popen[bytes]) -> int:
        assert started.stdout is not None  # noqa: S101 - a pipe was asked for
        with started.stdout as said:
            word, _, rest = said.readline().decode().strip().partition(" ")
        if word == "pid":
            return int(rest)
        self.stop()
        raise StartFailed(f"cannot run {rest or self._command[0]}", log=self.log_tail())

    def let_go(self) -> None:
        """Give up ownership in this process: when no process owns the server any more, it ends."""
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None
        _held.discard(self)


_held: weakref.WeakSet[GuardedProcess] = weakref.WeakSet()


def _let_go_in_forked_child() -> None:
    """A forked child must not hold the pipe: the server would outlive its owner until the child ends."""
    for process in list(_held):
        process.let_go()


os.register_at_fork(after_in_child=_let_go_in_forked_child)
