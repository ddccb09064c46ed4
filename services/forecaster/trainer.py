"""Runs the training process and says how it is doing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from forecasting.history import TrafficHistory
from services.forecaster.lesson import TrainingRequest
from services.forecaster.train import write_request


class TrainingPhase(StrEnum):
    """Where training stands."""

    IDLE = "idle"
    RUNNING = "running"
    DONE = "done"
    """A version was written; it may have been rejected in part or in whole."""
    FAILED = "failed"
    """The process died or had nothing to learn from; the models in force stay."""


@dataclass(frozen=True, slots=True)
class TrainingState:
    """What an operator sees of training."""

    phase: TrainingPhase = TrainingPhase.IDLE
    stage: str = ""
    share: float = 0.0
    """Of the budget, in [0, 1]."""
    version: str = ""
    rejected: tuple[str, ...] = ()
    error: str = ""


class TrainingProcess:
    """At most one training run at a time, in a process of its own that ends with this one."""

    def __init__(self, directory: Path, *, python: str = sys.executable) -> None:
        self._directory = directory
        self._python = python
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._state = TrainingState()
        self._lock = threading.Lock()
        self._overdue = ""
        """Why the run under way was ended by us; empty when it was not."""

    @property
    def state(self) -> TrainingState:
        with self._lock:
            return self._state

    @property
    def running(self) -> bool:
        return self.state.phase is TrainingPhase.RUNNING

    @property
    def pid(self) -> int | None:
        """Of the process that trains now."""
        return self._process.pid if self._process is not None and self.running else None

    def start(
        self,
        request: TrainingRequest,
        histories: Mapping[str, TrafficHistory],
        *,
        within_s: float | None = None,
    ) -> None:
        """Begin, unless a run is under way; one that is not done `within_s` by the clock is ended.

        A run that cannot begin has failed: a full disk or a lack of memory is no end of serving.
        """
        if self.running:
            return
        self._overdue = ""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=".training-", dir=self._directory))
            self._process = self._begun(work, request, histories)
        except OSError as error:
            self._set(TrainingState(TrainingPhase.FAILED, error=f"training could not begin: {error}"))
            return
        self._set(TrainingState(TrainingPhase.RUNNING, stage="starting"))
        self._reader = threading.Thread(
            target=self._follow, args=(self._process, work, within_s), name="forecast-training", daemon=True
        )
        self._reader.start()

    def _begun(
        self, work: Path, request: TrainingRequest, histories: Mapping[str, TrafficHistory]
    ) -> subprocess.Popen[str]:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        try:
            write_request(work, request, histories)
            with (work / "stderr").open("w") as stderr:
                return subprocess.Popen(
                    [self._python, "-m", "services.forecaster.train", str(work), str(self._directory)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env={**os.environ, **threads},
                    text=True,
                )
        except OSError:
            shutil.rmtree(work, ignore_errors=True)
            raise

    def _follow(self, process: subprocess.Popen[str], work: Path, within_s: float | None) -> None:
        assert process.stdout is not None  # noqa: S101 - we asked for a pipe
        wait_s = min(within_s or 0.0, threading.TIMEOUT_MAX)
        timer = threading.Timer(wait_s, self._end_overdue, args=(process, wait_s))
        timer.daemon = True
        if within_s is not None:
            timer.start()
        last: dict[str, Any] = {}
        for line in process.stdout:
            try:
                last = json.loads(line)
            except ValueError:
                continue  # a library printed something
            if "stage" in last:
                self._set(replace(self.state, stage=last["stage"], share=last["share"]))
        code = process.wait()
        timer.cancel()
        if code == 0 and "version" in last:
            outcome = TrainingState(TrainingPhase.DONE, "done", 1.0, last["version"], tuple(last["rejected"]))
        else:
            reason = last.get("error") or self._overdue or _why(code, work / "stderr")
            outcome = TrainingState(TrainingPhase.FAILED, self.state.stage, self.state.share, error=reason)
        shutil.rmtree(work, ignore_errors=True)
        process.stdout.close()
        if process.stdin is not None:
            process.stdin.close()
        self._set(outcome)

    def _end_overdue(self, process: subprocess.Popen[str], within_s: float) -> None:
        if process.poll() is None:
            self._overdue = f"training was not done within {within_s:g} s and was ended"
            process.kill()

    def _set(self, state: TrainingState) -> None:
        with self._lock:
            self._state = state

    def stop(self) -> None:
        """End a run that is under way; nothing of it remains."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        if self._reader is not None:
            self._reader.join(timeout=10)

    def join(self, timeout_s: float) -> TrainingState:
        """Wait for the run under way to end."""
        if self._reader is not None:
            self._reader.join(timeout=timeout_s)
        return self.state


_HINTS: dict[int, str] = {
    signal.SIGKILL: "; the machine may be out of memory",
    signal.SIGXCPU: "; it used far more CPU time than its budget",
}


def _why(code: int, stderr: Path) -> str:
    lines = (
        stderr.read_text(encoding="utf-8", errors="replace").strip().splitlines() if stderr.exists() else []
    )
    last = f": {lines[-1]}" if lines else ""
    if code < 0:
        name = signal.Signals(-code).name
        return f"training was ended by {name}{_HINTS.get(-code, '')}{last}"
    return f"training ended with code {code}{last}"
