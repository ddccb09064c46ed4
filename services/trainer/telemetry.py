"""What a worker says of itself: how much it trained, and how busy it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Protocol

import structlog

from services.control.errors import StateUnavailable
from services.control.types import WorkerReport
from services.stream.outage import Outage

_log = structlog.get_logger(__name__)


class Tally:
    """Counts steps in one thread and makes reports of them in another."""

    def __init__(
        self,
        worker: str,
        *,
        now_s: Callable[[], float] = time.time,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker = worker
        self._now_s = now_s
        self._elapsed_s = elapsed_s
        self._lock = Lock()
        self._trained = 0
        self._window_trained = 0
        self._window_busy_s = 0.0
        self._step_began_s: float | None = None
        self._window_began_s = elapsed_s()

    def step_began(self) -> None:
        """A step starts now."""
        with self._lock:
            self._step_began_s = self._elapsed_s()

    def step_ended(self, samples: int) -> None:
        """The step is over: `samples` are trained."""
        with self._lock:
            self._spend()
            self._step_began_s = None
            self._trained += samples
            self._window_trained += samples

    def report(self) -> WorkerReport:
        """What happened since the last report. A step under way counts as busy, not yet as trained."""
        with self._lock:
            if self._step_began_s is not None:
                self._spend()
            window_s = self._elapsed_s() - self._window_began_s
            busy_s, trained = self._window_busy_s, self._window_trained
            self._window_busy_s, self._window_trained = 0.0, 0
            self._window_began_s += window_s
            return WorkerReport(
                worker=self._worker,
                at_s=self._now_s(),
                trained=self._trained,
                busy=min(1.0, busy_s / window_s) if window_s > 0 else 0.0,
                rate_per_busy_s=trained / busy_s if busy_s > 0 else 0.0,
            )

    def _spend(self) -> None:
        """Count the time of the step under way up to now."""
        if self._step_began_s is not None:
            now_s = self._elapsed_s()
            self._window_busy_s += now_s - self._step_began_s
            self._step_began_s = now_s


class ReportSink(Protocol):
    """Where reports go."""

    def write(self, report: WorkerReport) -> None:
        """Raises StateUnavailable."""
        ...

    def forget(self) -> None:
        """The worker has left. Raises StateUnavailable."""
        ...


class Reporter:
    """Writes a report every `every_s`, for as long as the context lasts; then the last one."""

    def __init__(self, tally: Tally, sink: ReportSink, *, every_s: float = 1.0) -> None:
        self._tally = tally
        self._sink = sink
        self._every_s = every_s
        self._outage = Outage("redis, for reports")
        self._ended = Event()
        self._thread = Thread(target=self._run, name="reporter", daemon=True)

    def __enter__(self) -> Reporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        try:
            self._sink.write(self._tally.report())
            self._sink.forget()
        except StateUnavailable as error:
            _log.warning("last_report_lost", why=str(error))

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                self._sink.write(self._tally.report())
            except StateUnavailable as error:
                self._outage.failed(error)
            else:
                self._outage.answered()
