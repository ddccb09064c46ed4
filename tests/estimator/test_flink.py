"""The Flink autoscaler's rule."""

from __future__ import annotations

from typing import Any

from estimator.rules.flink import FlinkMemory, aligned, flink, true_processing_rate
from tests.estimator.seeing import situation


def run(
    minutes: int, memory: FlinkMemory | None = None, first: int = 0, **seen: Any
) -> tuple[list[int], FlinkMemory]:
    """Sizes wanted minute by minute in a situation that does not change."""
    rule, sizes = flink(), []
    memory = memory or FlinkMemory()
    for minute in range(first, first + minutes):
        sizing, memory = rule.size(situation(now_s=60.0 * minute, **seen), memory)
        sizes.append(sizing.workers)
    return sizes, memory


def test_silent_for_twenty_minutes_after_a_start() -> None:
    sizes, _ = run(25, busy=1.0, rate_per_s=400.0, trained_per_s=400.0, lag=500_000.0)

    acted = next(minute for minute, size in enumerate(sizes) if size != 4)
    assert acted == 20


def test_a_resize_starts_the_silence_again() -> None:
    _, memory = run(15, busy=1.0)
    starting, memory = run(3, memory, 15, busy=1.0, requested=6, ready=4)
    sizes, _ = run(20, memory, 18, busy=1.0, requested=6, ready=6, lag=500_000.0)

    assert starting == [6, 6, 6]
    assert sizes == [6] * 20


def test_scale_down_waits_an_hour_and_takes_the_largest_wish() -> None:
    sizes, memory = run(50, busy=0.2, trained_per_s=80.0, rate_per_s=80.0)
    more, memory = run(1, memory, 50, busy=0.35, trained_per_s=140.0, rate_per_s=140.0)
    late, _ = run(35, memory, 51, busy=0.2, trained_per_s=80.0, rate_per_s=80.0)

    assert set(sizes) == {4}
    assert set(more) == {4}
    first = next(i for i, size in enumerate(late) if size != 4)
    assert first + 51 == 80  # an hour after the first wish, in minute 20
    assert late[first] == 2


def test_no_scale_down_while_a_backlog_is_worked_off() -> None:
    sizes, _ = run(90, busy=0.2, trained_per_s=80.0, rate_per_s=80.0, lag=80.0 * 400)

    assert min(sizes) == 4


def test_the_observed_rate_counts_when_busy_time_flatters() -> None:
    assert true_processing_rate(100.0, 0.5, lag=3000.0) == 100.0
    assert true_processing_rate(100.0, 0.5, lag=2900.0) == 200.0
    assert true_processing_rate(100.0, 0.9, lag=3000.0) == 100.0 / 0.9


def test_parallelism_is_aligned_with_the_partitions() -> None:
    assert aligned(33, 20, 64, partitions=64) == 64
    assert aligned(5, 4, 64, partitions=64) == 6
    assert aligned(7, 4, 8, partitions=0) == 7
