"""Processes of this machine as a platform for workers."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace

import structlog

from services.actuator.intent import Intent
from services.actuator.launcher import Launcher
from services.actuator.platform import Exit, Sight, WorkerFacts
from services.actuator.run_files import RunFiles, WorkerRecord
from services.actuator.worker_logs import WorkerLogs
from services.actuator.worker_process import WorkerProcess

log = structlog.get_logger()


class ProcessPlatform:
    """A `Platform` of local processes that are known to others by their files.

    Works on the files of one directory: call it under their lock.
    """

    def __init__(self, files: RunFiles, logs: WorkerLogs, launcher: Launcher) -> None:
        self._files = files
        self._logs = logs
        self._launcher = launcher
        self._processes: dict[str, WorkerProcess] = {}
        self._log = log.bind(job=files.directory.name)

    def found(self) -> tuple[WorkerFacts, ...]:
        """Every worker on record, running or not."""
        records = self._files.records()
        self._processes.update({record.facts.id: record.process for record in records})
        return tuple(record.facts for record in records)

    def look(self, workers: Collection[str]) -> Mapping[str, Sight]:
        """How these do. A child of ours that has ended is reaped."""
        return {worker: self._look(worker) for worker in workers}

    def reserve(self, intent: Intent, count: int) -> Intent:
        """The ids are used up on disk before a worker has one."""
        intent = replace(intent, next_worker=intent.next_worker + count)
        self._files.write_fence(replace(self._files.fence(), intent=intent))
        return intent

    def start(self, worker: WorkerFacts) -> WorkerFacts:
        """Start it, and leave its record behind."""
        record = self._launcher.start(replace(worker, node=os.uname().nodename))
        self._processes[worker.id] = record.process
        self._log.info("worker_started", worker=worker.id, pid=record.process.pid, strikes=worker.strikes)
        return record.facts

    def note(self, worker: WorkerFacts) -> None:
        """Write its record afresh."""
        self._files.write_record(WorkerRecord(worker, self._processes[worker.id]))

    def ask_to_leave(self, worker: str) -> None:
        """SIGTERM to the process alone; nothing happens to one that was reaped."""
        if worker in self._processes:
            self._processes[worker].ask_to_leave()

    def kill(self, worker: str) -> None:
        """SIGKILL to the process and its group; nothing happens to one that was reaped."""
        if worker in self._processes:
            self._processes[worker].kill()

    def forget(self, worker: str) -> None:
        """End what the worker left running, and remove its files."""
        if worker in self._processes:
            self._processes[worker].sweep()
        self._files.forget(worker)
        self._processes.pop(worker, None)

    def last_line(self, worker: str) -> str:
        """The last line of its log."""
        return self._logs.last_line(worker)

    def tidy(self, alive: Collection[str]) -> None:
        """Cut long logs, remove old ones."""
        self._logs.trim(alive)
        self._logs.prune(alive=alive)

    def reap(self) -> None:
        """Let no child of ours stay a zombie while another pool supervises it."""
        for worker in list(self._processes):
            if self._processes[worker].poll() is not None:
                del self._processes[worker]

    def _look(self, worker: str) -> Sight:
        process = self._processes.get(worker)
        ended = Exit(None) if process is None else process.poll()
        return Sight(ended, ready=self._files.ready_file(worker).exists())
