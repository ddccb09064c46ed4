"""What a pool has shown of itself."""

from __future__ import annotations

import pytest

from estimator.lead_time import Failures, PoolTimes


def test_workers_asked_for_together_count_once_and_by_the_slowest() -> None:
    times = PoolTimes(60.0)
    for took_s in (40.0, 200.0, 50.0):
        times = times.ready(took_s, asked_at_s=7.0)

    assert times.lead_times().latest == (200.0,)


def test_each_gpu_type_has_a_lead_time_of_its_own() -> None:
    times = PoolTimes(60.0)
    for ask in range(20):
        times = times.ready(500.0, asked_at_s=float(ask), gpu_type="h100")

    assert times.lead_time_s("h100") == 500.0
    assert times.lead_time_s("t4") == 60.0


def test_a_lead_time_stated_anew_counts_as_if_it_had_always_been_stated() -> None:
    times = PoolTimes(60.0).ready(50.0, asked_at_s=1.0)
    again = PoolTimes(600.0, starts=times.starts)

    assert again.lead_time_s() >= 600.0


def test_resizes_that_stop_nothing_bring_the_pause_to_nothing_once_there_are_enough() -> None:
    times = PoolTimes(60.0, pause_stated_s=8.0)
    for _ in range(5):
        times = times.paused(0.0)
    assert times.pause_s() == 8.0

    for _ in range(5):
        times = times.paused(0.0)
    assert times.pause_s() == 0.0


def test_a_pool_that_never_stopped_is_not_given_a_pause_by_the_shape_of_durations() -> None:
    assert PoolTimes(60.0).paused(0.0).pause_s() == 0.0


def test_failures_are_never_taken_for_impossible() -> None:
    times = PoolTimes(60.0)
    for ask in range(100):
        times = times.ready(10.0, asked_at_s=float(ask))

    assert 0 < times.failures.start_share < 0.01


def test_starts_that_fail_and_workers_that_die_raise_their_rates() -> None:
    failing = PoolTimes(60.0).given_up(30.0, asked_at_s=0.0).lived(86_400.0, died=3).failures

    assert failing.start_share > Failures().start_share
    assert failing.per_worker_day > Failures().per_worker_day


@pytest.mark.parametrize("worker_s", [float("nan"), -5.0])
def test_lives_that_cannot_be_change_nothing(worker_s: float) -> None:
    assert Failures().lived(worker_s, died=1) == Failures()
