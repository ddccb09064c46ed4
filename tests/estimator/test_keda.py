"""KEDA's Kafka scaler, with the two quirks that its users report."""

from __future__ import annotations

from estimator.rules.keda import KedaMemory, desired_by_lag, keda, lag_metric
from estimator.situation import Limits
from tests.estimator.seeing import situation


def test_one_replica_more_than_partitions_through_whole_number_division() -> None:
    # kedacore/keda#4483: threshold 5, five partitions, lag 27.
    metric = lag_metric([27, 0, 0, 0, 0], 27, lag_threshold=5)

    assert desired_by_lag(metric, lag_threshold=5, current=1) == 6


def test_stuck_one_below_the_partitions_through_the_tolerance() -> None:
    # kedacore/keda#2908, #4791: 63 replicas, 64 partitions, endless lag.
    metric = lag_metric([10_000] * 64, 640_000, lag_threshold=10)

    assert desired_by_lag(metric, lag_threshold=10, current=63) == 63
    assert desired_by_lag(metric, lag_threshold=10, current=50) == 64


def test_a_pool_that_keeps_up_has_no_lag_and_is_sent_home() -> None:
    rule, memory = keda(lag_threshold=100.0), KedaMemory()
    sizes = []
    for second in range(0, 331, 15):
        sizing, memory = rule.size(situation(now_s=float(second), requested=4), memory)
        sizes.append(sizing.workers)

    assert sizes[0] == 1  # nothing recommended more before
    busy, memory = rule.size(situation(now_s=345.0, requested=4, lag=400.0), memory)
    held, memory = rule.size(situation(now_s=360.0, requested=4), memory)
    gone, _ = rule.size(situation(now_s=660.0, requested=4), memory)
    assert (busy.workers, held.workers, gone.workers) == (4, 4, 1)


def test_to_zero_after_the_cooldown_and_back_at_the_first_lag() -> None:
    rule, idle = keda(), {"requested": 1, "ready": 1, "limits": Limits(0, 64)}
    _, memory = rule.size(situation(now_s=0.0, lag=1.0, **idle), KedaMemory())
    early, memory = rule.size(situation(now_s=285.0, **idle), memory)
    asleep, memory = rule.size(situation(now_s=300.0, **idle), memory)
    woken, _ = rule.size(situation(now_s=315.0, lag=1.0, requested=0, ready=0, limits=Limits(0, 64)), memory)

    assert (early.workers, asleep.workers, woken.workers) == (1, 0, 1)
