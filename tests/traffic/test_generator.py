"""The generator plays a shape: as many samples as it says, when it says, the same for the same seed."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from services.traffic.generator import SLOT_S, Playback, TrafficGenerator, TrafficReport, write_report
from services.traffic.outbox import Sent
from services.traffic.samples import SampleMaker


class FakeTime(threading.Event):
    """Time that passes only by being waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now_s += timeout
        return self.is_set()


@dataclass
class Sink:
    """Acknowledges at once; may take its time over a batch."""

    time: FakeTime
    stall_at: int = -1
    stall_s: float = 0.0
    sent: Sent = field(default_factory=Sent)
    batches: list[tuple[float, list[tuple[bytes, bytes]]]] = field(default_factory=list)
    closed: bool = False

    def send(self, samples: list[tuple[bytes, bytes]]) -> None:
        self.batches.append((self.time.now_s, samples))
        self.sent.handed += len(samples)
        self.sent.produced += len(samples)
        if len(self.batches) == self.stall_at:
            self.time.now_s += self.stall_s

    def close(self, *, within_s: float) -> None:
        self.closed = True


@dataclass(frozen=True)
class Steps:
    """100/s before simulated second 1000, 400/s from then on."""

    end_s: float = float("inf")

    def rates(self, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(at_s < 1000.0, 100.0, 400.0)


@dataclass
class Run:
    sink: Sink
    reports: list[TrafficReport]
    last: TrafficReport


def play(playback: Playback, *, shape: Steps | None = None, stall_at: int = -1, stall_s: float = 0.0) -> Run:
    time = FakeTime()
    sink = Sink(time, stall_at, stall_s)
    reports: list[TrafficReport] = []
    generator = TrafficGenerator(
        shape or Steps(),
        playback,
        SampleMaker(),
        sink,
        stop=time,
        report=reports.append,
        elapsed_s=lambda: time.now_s,
    )
    return Run(sink, reports, generator.run())


TEN_SECONDS = Playback(topic="t", start_s=990.0, duration_s=20.0)


def test_rates_are_per_wall_second_and_follow_simulated_time() -> None:
    slow = play(TEN_SECONDS)
    fast = play(replace(TEN_SECONDS, speed_up=2.0))

    def first_half(run: Run) -> int:
        return sum(len(samples) for at_s, samples in run.sink.batches if at_s < 10.0)

    assert first_half(slow) == pytest.approx(1000, rel=0.15)
    assert slow.last.produced == pytest.approx(1000 + 4000, rel=0.06)
    assert first_half(fast) == pytest.approx(500 + 2000, rel=0.1)


def test_the_same_seed_sends_the_same_samples() -> None:
    one, two = (play(TEN_SECONDS) for _ in range(2))
    other = play(replace(TEN_SECONDS, seed=2))

    assert [len(samples) for _, samples in one.sink.batches] == [
        len(samples) for _, samples in two.sink.batches
    ]
    assert [len(samples) for _, samples in one.sink.batches] != [
        len(samples) for _, samples in other.sink.batches
    ]


def test_it_ends_where_the_shape_ends_and_flushes() -> None:
    run = play(TEN_SECONDS, shape=Steps(end_s=995.0))

    assert run.last.finished
    assert run.last.elapsed_s == pytest.approx(5.0)
    assert run.sink.closed


def test_it_sends_exactly_as_many_as_it_was_asked_for() -> None:
    assert play(replace(TEN_SECONDS, samples_max=137)).last.produced == 137


def test_counts_are_told_every_second_and_at_the_end() -> None:
    run = play(TEN_SECONDS)

    assert len(run.reports) == 21
    assert [report.finished for report in run.reports] == [False] * 20 + [True]
    assert run.reports[-1] == run.last


def test_a_short_stall_is_caught_up_so_that_no_sample_is_missing() -> None:
    assert play(TEN_SECONDS, stall_at=50, stall_s=3.0).last.produced == play(TEN_SECONDS).last.produced


def test_a_long_stall_is_skipped_and_told_so_that_no_burst_follows() -> None:
    run = play(TEN_SECONDS, stall_at=50, stall_s=8.0)

    assert run.last.skipped_s == pytest.approx(8.0, abs=2 * SLOT_S)
    assert max(len(samples) for _, samples in run.sink.batches) < 60


def test_a_stop_ends_it_at_once_with_a_final_report() -> None:
    time = FakeTime()
    sink = Sink(time)
    reports: list[TrafficReport] = []

    def stop_after_three(report: TrafficReport) -> None:
        reports.append(report)
        if len(reports) == 3:
            time.set()

    TrafficGenerator(
        Steps(),
        TEN_SECONDS,
        SampleMaker(),
        sink,
        stop=time,
        report=stop_after_three,
        elapsed_s=lambda: time.now_s,
    ).run()

    assert reports[-1].finished
    assert reports[0].elapsed_s == pytest.approx(SLOT_S), "the first says that traffic has begun"
    assert reports[-1].elapsed_s == pytest.approx(2.0 + SLOT_S)


def test_a_report_replaces_the_one_before_in_one_step(tmp_path: Path) -> None:
    report = play(TEN_SECONDS).last
    path = tmp_path / "report.json"

    write_report(path, replace(report, produced=1))
    write_report(path, report)

    assert json.loads(path.read_text())["produced"] == report.produced
    assert list(tmp_path.iterdir()) == [path], "no draft is left behind"
