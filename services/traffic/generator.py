"""Plays a traffic shape against a Kafka topic, faster than life if asked to."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import structlog

from services.traffic.outbox import Sent
from services.traffic.shape import TrafficShape

log = structlog.get_logger()

SLOT_S = 0.05
"""Samples are made for this long at a time: few enough wake-ups to be cheap, fine enough to be smooth."""
CATCH_UP_S = 5.0
"""A generator further behind than this skips ahead: its traffic would come as a burst that never was."""


class SampleSource(Protocol):
    """Where the samples come from."""

    made: int

    @property
    def hidden_auc(self) -> float | None:
        """How well the model that made the labels tells them; None where there are none."""
        ...

    def make(self, count: int, *, at_s: float, simulated_s: float) -> list[tuple[bytes, bytes]]: ...


class SampleSink(Protocol):
    """Where the samples go."""

    sent: Sent

    def send(self, samples: list[tuple[bytes, bytes]]) -> None: ...

    def close(self, *, within_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class TrafficReport:
    """What was sent so far. `produced` is exact; `in_flight` may or may not be in the log."""

    topic: str
    produced: int
    in_flight: int
    retried: int
    skipped_s: float
    """Traffic that was never made because the cluster or this machine could not keep up."""
    elapsed_s: float
    simulated_s: float
    """Where in the shape the generator is."""
    rate_per_s: float
    """What the shape wants at this moment."""
    finished: bool
    hidden_auc: float | None = None
    """How well the model that made the clicks tells the latest of them: what a trainer may come near to."""


@dataclass(frozen=True, slots=True)
class Playback:
    """How a shape is played. Rates are per wall second, whatever the speed-up."""

    topic: str
    start_s: float
    """Simulated time at which the playing starts."""
    speed_up: float = 1.0
    """Simulated seconds that pass in a wall second."""
    duration_s: float = float("inf")
    """Wall seconds after which it ends; it also ends where the shape does."""
    samples_max: float = float("inf")
    seed: int = 1

    def at_s(self, elapsed_s: float) -> float:
        """Simulated time after `elapsed_s` wall seconds."""
        return self.start_s + elapsed_s * self.speed_up


class TrafficGenerator:
    """Makes the samples of each slot when its time has come.

    The number of samples in slot k depends on the seed and k alone, so two runs
    of one seed send the same samples, however the machine is loaded, unless one
    of them had to skip.
    """

    def __init__(
        self,
        shape: TrafficShape,
        playback: Playback,
        samples: SampleSource,
        sink: SampleSink,
        *,
        stop: threading.Event,
        report: Callable[[TrafficReport], None],
        report_every_s: float = 1.0,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shape = shape
        self._playback = playback
        self._samples = samples
        self._sink = sink
        self._stop = stop
        self._report = report
        self._report_every_s = report_every_s
        self._elapsed_s = elapsed_s
        self._random = np.random.default_rng([playback.seed, 2])
        self._skipped_slots = 0
        self._slot = 0

    def run(self, *, flush_s: float = 10.0) -> TrafficReport:
        """Play until the stop, the end of the shape, or the limits. Flushes, reports, and returns."""
        started_s, wall_s = self._elapsed_s(), time.time()
        reported_s = -math.inf  # the first report says that traffic has begun
        while not self._over():
            wait_s = started_s + self._slot * SLOT_S - self._elapsed_s()
            if wait_s > 0 and self._stop.wait(wait_s):
                break
            self._skip_what_is_too_late(-wait_s)
            passed_s = self._slot * SLOT_S
            self._sink.send(
                self._samples.make(
                    self._due(), at_s=wall_s + passed_s, simulated_s=self._playback.at_s(passed_s)
                )
            )
            self._slot += 1
            if self._slot * SLOT_S - reported_s >= self._report_every_s:
                reported_s = self._slot * SLOT_S
                self._report(self._counts(finished=False))
        self._sink.close(within_s=flush_s)
        last = self._counts(finished=True)
        self._report(last)
        return last

    def _over(self) -> bool:
        elapsed_s = self._slot * SLOT_S
        return (
            self._stop.is_set()
            or elapsed_s >= self._playback.duration_s
            or self._playback.at_s(elapsed_s) >= self._shape.end_s
            or self._samples.made >= self._playback.samples_max
        )

    def _due(self) -> int:
        """How many samples this slot has: by chance, around what the shape says."""
        count = int(self._random.poisson(self._rate_per_s() * SLOT_S))
        return int(min(count, self._playback.samples_max - self._samples.made))

    def _rate_per_s(self) -> float:
        middle_s = self._playback.at_s((self._slot + 0.5) * SLOT_S)
        return float(self._shape.rates(np.array([middle_s]))[0])

    def _skip_what_is_too_late(self, behind_s: float) -> None:
        if behind_s < CATCH_UP_S:
            return
        slots = int(behind_s / SLOT_S)
        log.warning("traffic_skipped", seconds=round(slots * SLOT_S, 1), produced=self._sink.sent.produced)
        self._skipped_slots += slots
        self._slot += slots

    def _counts(self, *, finished: bool) -> TrafficReport:
        sent = self._sink.sent
        elapsed_s = self._slot * SLOT_S
        return TrafficReport(
            topic=self._playback.topic,
            produced=sent.produced,
            in_flight=sent.in_flight,
            retried=sent.retried,
            skipped_s=round(self._skipped_slots * SLOT_S, 3),
            elapsed_s=round(elapsed_s, 3),
            simulated_s=round(self._playback.at_s(elapsed_s), 3),
            rate_per_s=round(self._rate_per_s(), 3),
            finished=finished,
            hidden_auc=self._samples.hidden_auc,
        )


def write_report(path: Path, report: TrafficReport) -> None:
    """Replace the file in one step: whoever reads it sees the counts before or after, never half."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(asdict(report)) + "\n", encoding="utf-8")
    draft.replace(path)


def stop_with_owner(fd: int, stop: threading.Event) -> None:
    """Set `stop` when the other end of this pipe is closed, as it is when the owner ends, however it ends."""

    def watch() -> None:
        while os.read(fd, 4096):
            pass
        log.info("owner_ended")
        stop.set()

    threading.Thread(target=watch, name="owner-watch", daemon=True).start()
