"""HPA v2 on busy fractions, with its documented quirks."""

from __future__ import annotations

from estimator.rules.hpa import HpaMemory, desired_by_usage, hpa
from estimator.situation import Limits
from tests.estimator.seeing import situation


def test_a_ratio_within_a_tenth_of_the_target_changes_nothing() -> None:
    assert desired_by_usage([0.86] * 4, 0, 0, target=0.8, current=4) == 4
    assert desired_by_usage([0.9] * 4, 0, 0, target=0.8, current=4) == 5


def test_a_target_above_ninety_percent_never_scales_up() -> None:
    assert desired_by_usage([1.0] * 4, 0, 0, target=0.91, current=4) == 4


def test_workers_that_start_count_as_idle_when_growing() -> None:
    with_starting = desired_by_usage([1.0] * 4, 0, 2, target=0.6, current=6)

    assert desired_by_usage([1.0] * 4, 0, 0, target=0.6, current=4) == 7
    assert with_starting == 7  # the same seven, not eleven: the two on their way are counted


def test_workers_that_never_become_ready_hold_a_saturated_pool_down() -> None:
    # 9 busy ones over 11 asked for are 0.82, near enough to 0.8.
    assert desired_by_usage([1.0] * 9, 0, 2, target=0.8, current=11) == 11


def test_a_missing_metric_counts_for_nothing_exactly_at_target() -> None:
    assert desired_by_usage([0.5] * 3, 3, 0, target=0.5, current=6) == 6


def test_a_missing_metric_counts_as_at_target_when_shrinking_and_idle_when_growing() -> None:
    assert desired_by_usage([0.4] * 3, 1, 0, target=0.8, current=4) == 3
    assert desired_by_usage([1.0] * 3, 1, 0, target=0.8, current=4) == 4


def test_without_any_metric_the_pool_is_held() -> None:
    sizing, _ = hpa().size(situation(busy=None, busy_by_worker={}), HpaMemory())

    assert sizing.workers == 4


def test_it_decides_every_fifteen_seconds() -> None:
    rule, memory, sizes = hpa(), HpaMemory(), []
    for second in range(0, 31, 5):
        sizing, memory = rule.size(situation(now_s=float(second), busy=1.0), memory)
        sizes.append(sizing.workers)

    assert sizes == [5, 4, 4, 5, 4, 4, 5]


def test_a_worker_s_busy_fraction_is_averaged_over_a_minute() -> None:
    rule, memory = hpa(target=0.8), HpaMemory()
    for second in (0, 15, 30):
        _, memory = rule.size(situation(now_s=float(second), busy=0.8), memory)
    paused, _ = rule.size(situation(now_s=45.0, busy=1.0), memory)
    short, _ = hpa(target=0.8, window_s=15.0).size(situation(now_s=45.0, busy=1.0), memory)

    assert paused.workers == 4  # 0.85 on average: within tolerance
    assert short.workers == 5


def test_outside_its_limits_it_goes_to_the_nearest_one_without_looking() -> None:
    sizing, _ = hpa().size(situation(requested=9, ready=9, limits=Limits(1, 6), busy=1.0), HpaMemory())

    assert sizing.workers == 6
