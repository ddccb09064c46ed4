"""What a worker says of itself: how much it trained, and how busy it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import Protocol

import structlog

from estimator.throughput import ResourceLoad, StepTimes
from services.control.errors import StateUnavailable
from services.control.training_quality import TrainingQuality
from services.control.types import GpuLoad, ShardFigures, WorkerReport
from services.stream.outage import Outage

_log = structlog.get_logger(__name__)


class Tally:
    """Counts steps in some threads and makes reports of them in another.

    Steps may overlap: the worker is busy from when there is one until there is none.
    """

    def __init__(
        self,
        worker: str,
        *,
        batch: int | None = None,
        shared: Callable[[], tuple[ResourceLoad, ...]] = tuple,
        shards: Callable[[], tuple[ShardFigures, ...]] = tuple,
        quality: Callable[[], TrainingQuality | None] = lambda: None,
        gpu: Callable[[], GpuLoad | None] = lambda: None,
        now_s: Callable[[], float] = time.time,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `shared`, `shards` and `quality`, reports also tell how the parameter server and the model do.

        Where `gpu` tells nothing, compute time over wall time stands in for how busy the GPU is.
        """
        self._worker = worker
        self._batch = batch
        self._shared = shared
        self._shards = shards
        self._quality = quality
        self._gpu = gpu
        self._now_s = now_s
        self._elapsed_s = elapsed_s
        self._lock = Lock()
        self._trained = 0
        self._window_trained = 0
        self._window_busy_s = 0.0
        self._window_steps: list[StepTimes] = []
        self._under_way = 0
        self._counted_to_s = 0.0
        self._window_began_s = elapsed_s()

    def step_began(self) -> None:
        """A step starts now."""
        with self._lock:
            self._spend()
            self._under_way += 1

    def step_ended(self, samples: int, times: StepTimes | None = None) -> None:
        """The step is over: `samples` are trained; where its time went, if somebody measured."""
        with self._lock:
            self._spend()
            self._under_way -= 1
            if times is not None:
                self._window_steps.append(times)
            self._trained += samples
            self._window_trained += samples

    def report(self) -> WorkerReport:
        """What happened since the last report. A step under way counts as busy, not yet as trained."""
        with self._lock:
            self._spend()
            window_s = self._elapsed_s() - self._window_began_s
            busy_s, trained = self._window_busy_s, self._window_trained
            self._window_busy_s, self._window_trained = 0.0, 0
            self._window_began_s += window_s
            steps, self._window_steps = self._window_steps, []
            busy = min(1.0, busy_s / window_s) if window_s > 0 else 0.0
            computed_s = sum(step.compute_s for step in steps) if steps else busy_s
            told = WorkerReport(
                worker=self._worker,
                at_s=self._now_s(),
                trained=self._trained,
                busy=busy,
                rate_per_busy_s=trained / busy_s if busy_s > 0 else 0.0,
                batch=self._batch,
                steps=StepTimes.mean_of(steps),
            )
        share = min(1.0, computed_s / window_s) if window_s > 0 else 0.0
        return replace(
            told,
            resources=self._shared(),
            shards=self._shards(),
            quality=self._quality(),
            gpu=self._gpu() or GpuLoad(share),
        )

    def _spend(self) -> None:
        """Count the time up to now, if a step is under way."""
        now_s = self._elapsed_s()
        if self._under_way:
            self._window_busy_s += now_s - self._counted_to_s
        self._counted_to_s = now_s


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
