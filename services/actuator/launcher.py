"""How a worker is started: its command, its environment, its log, and the note of its pid."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from services.actuator.held_start import held_start
from services.actuator.platform import NotStarted, WorkerFacts
from services.actuator.run_files import RunFiles, WorkerRecord
from services.actuator.worker_logs import WorkerLogs

_OWN_VARIABLES = ("PENSTOCK_READY_FILE", "PENSTOCK_OWNER_FD", "PENSTOCK_DRAIN_S")


def penstock_worker(config: Path | None = None) -> tuple[str, ...]:
    """The command of Penstock's own worker, run by the Python that runs the controller.

    Without a `config` the worker has its settings from the environment, as the controller had.
    """
    worker = (
        sys.executable,
        "-m",
        "services.cli.main",
        "worker",
        "--job",
        "{job}",
        "--worker-id",
        "{worker}",
    )
    return worker if config is None else (*worker, "--config", str(config.absolute()))


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    """A command line in which `{job}` and `{worker}` are filled in.

    Other braces are left alone, since arguments may be JSON.

    >>> WorkerCommand("ads", ("train", "--id={worker}", '{"lr": 1}'), env={}).line("w-4")
    ['train', '--id=w-4', '{"lr": 1}']
    """

    job: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    """Added to the controller's own environment."""

    def line(self, worker: str) -> list[str]:
        """The command line of one worker."""
        return [part.replace("{job}", self.job).replace("{worker}", worker) for part in self.arguments]

    def environment(self) -> dict[str, str]:
        """What every worker sees. A controller that is itself somebody's worker does not pass that on."""
        inherited = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
        return {**inherited, **self.env}


class Launcher:
    """Starts workers that others can find: no worker runs before its pid is on disk.

    The worker learns from `PENSTOCK_READY_FILE` which file to make once it is ready. With an
    `owner_fd`, the read end of a pipe, it learns from `PENSTOCK_OWNER_FD` where the end of file
    will tell that its owner is gone.
    """

    def __init__(
        self, command: WorkerCommand, files: RunFiles, logs: WorkerLogs, *, owner_fd: int | None = None
    ) -> None:
        self._command = command
        self._files = files
        self._logs = logs
        self._owner_fd = owner_fd

    def start(self, worker: WorkerFacts) -> WorkerRecord:
        """Start `worker`; its record is on disk when this returns. Raises NotStarted."""
        line = self._command.line(worker.id)
        env = self._environment(worker.id)
        if shutil.which(line[0], path=env.get("PATH")) is None:
            raise NotStarted(
                f"the worker's command {line[0]!r} is not there or not executable; "
                "install it or mend pool.command"
            )
        try:
            return self._start(worker, line, env)
        except OSError as error:
            raise NotStarted(f"worker {worker.id} could not be started: {error}") from error

    def _environment(self, worker: str) -> dict[str, str]:
        env = self._command.environment()
        env["PENSTOCK_READY_FILE"] = str(self._files.ready_file(worker))
        if self._owner_fd is not None:
            env["PENSTOCK_OWNER_FD"] = str(self._owner_fd)
        return env

    def _start(self, worker: WorkerFacts, line: list[str], env: dict[str, str]) -> WorkerRecord:
        keep_fds = () if self._owner_fd is None else (self._owner_fd,)
        output = self._logs.open(worker.id)
        try:
            with held_start(line, env=env, output=output, keep_fds=keep_fds) as held:
                facts = replace(worker, where=f"pid {held.process.pid}")
                record = WorkerRecord(facts, held.process)
                self._files.write_record(record)
                held.release()
        finally:
            os.close(output)
        return record
