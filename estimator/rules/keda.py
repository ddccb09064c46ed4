"""`keda`: KEDA's Kafka scaler on lag, driven through an HPA without behaviours, as in life.

From `pkg/scalers/kafka_scaler.go`, all its scaling booleans false, as by default.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from estimator.reason import Reason
from estimator.rules.horizontal import PERIOD_S, Past, in_tolerance, unbehaved
from estimator.rules.rule import Rule, is_due
from estimator.situation import Situation, Sizing


@dataclass(frozen=True, slots=True)
class KedaMemory:
    """When it last decided, what it recommended, and since when there was no lag."""

    last_s: float | None = None
    past: Past = field(default_factory=Past)
    active_s: float | None = None


def keda(
    lag_threshold: float = 10.0, activation_lag: float = 0.0, cooldown_s: float = 300.0
) -> Rule[KedaMemory]:
    """Desired = ceil(lag / `lag_threshold`), cut off at the partitions; zero after `cooldown_s` without lag.

    Lag says how much waits, not how much comes: a pool that keeps up has none, and is sent home.
    """

    def size(seen: Situation, memory: KedaMemory) -> tuple[Sizing, KedaMemory]:
        if not is_due(memory.last_s, seen.now_s, PERIOD_S):
            return Sizing(seen.requested, Reason.STEADY), memory
        active = seen.lag > activation_lag
        active_s = seen.now_s if active or memory.active_s is None else memory.active_s
        current, limits = seen.requested, seen.limits
        if current == 0:
            woken = max(1, limits.workers_min) if active else limits.workers_min
            return Sizing(woken, Reason.CATCH_UP), KedaMemory(seen.now_s, memory.past, active_s)
        if limits.workers_min == 0 and seen.now_s - active_s >= cooldown_s:
            return Sizing(0, Reason.TRAFFIC_FALL), KedaMemory(seen.now_s, memory.past, active_s)
        metric = lag_metric(seen.partition_lags, seen.lag, lag_threshold=lag_threshold)
        desired = desired_by_lag(metric, lag_threshold=lag_threshold, current=current)
        workers, past = unbehaved(desired, current, memory.past, limits, now_s=seen.now_s)
        workers = max(workers, 1)  # an HPA never goes to zero; KEDA does, above
        reason = Reason.CATCH_UP if workers > current else Reason.STEADY
        if workers < current:
            reason = Reason.TRAFFIC_FALL
        numbers = {"lag_metric": metric, "wanted": float(desired)}
        return Sizing(workers, reason, numbers), KedaMemory(seen.now_s, past, active_s)

    return Rule("keda", KedaMemory, size, period_s=PERIOD_S, reads_learned=False, reads_busy=False)


def lag_metric(partition_lags: Sequence[float], lag: float, *, lag_threshold: float) -> float:
    """The lag that KEDA tells the HPA: no more than would be one worker a partition.

    The division is KEDA's, in whole numbers, so a remainder slips through:

    >>> lag_metric([27, 0, 0, 0, 0], 27, lag_threshold=5)  # five partitions, six workers
    27
    """
    partitions = len(partition_lags)
    if partitions and lag // lag_threshold > partitions:
        return partitions * lag_threshold
    return lag


def desired_by_lag(metric: float, *, lag_threshold: float, current: int) -> int:
    """The HPA's number for an external metric with an average value.

    Its tolerance holds here too: 63 workers never become 64.

    >>> desired_by_lag(64 * 10.0, lag_threshold=10.0, current=63)
    63
    """
    if in_tolerance(metric / (lag_threshold * current)):
        return current
    return math.ceil(metric / lag_threshold - 1e-9)
