"""`hpa`: Kubernetes' Horizontal Pod Autoscaler v2 on the workers' busy fraction.

From `podautoscaler/replica_calculator.go` (a Pods metric) and `horizontal.go`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean

from estimator.reason import Reason
from estimator.rules.horizontal import DOWN_WINDOW_S, PERIOD_S, Past, behaved, in_tolerance
from estimator.rules.rule import Rule, is_due
from estimator.situation import Situation, Sizing

Busy = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HpaMemory:
    """When it last decided, what it recommended, and the busy fractions within the metric's window."""

    last_s: float | None = None
    past: Past = field(default_factory=Past)
    window: tuple[tuple[float, dict[str, float]], ...] = ()


def hpa(
    target: float = 0.8,
    window_s: float = 60.0,
    up_window_s: float = 0.0,
    down_window_s: float = DOWN_WINDOW_S,
) -> Rule[HpaMemory]:
    """Desired = ceil(mean busy / target · ready), every 15 s, with the default behaviours.

    Each worker's busy fraction is averaged over `window_s`, as a metrics server does.
    With 15 s it overreacts to every pause.
    """

    def size(seen: Situation, memory: HpaMemory) -> tuple[Sizing, HpaMemory]:
        window = _remembered(seen, memory, window_s)
        if not is_due(memory.last_s, seen.now_s, PERIOD_S):
            return _held(seen), HpaMemory(memory.last_s, memory.past, window)
        limits, current = seen.limits, seen.requested
        if current > limits.workers_max or current < limits.workers_min:
            nearest = limits.workers_max if current > limits.workers_max else limits.workers_min
            return Sizing(nearest, Reason.FIXED), HpaMemory(seen.now_s, memory.past, window)
        averages = _averages(window, seen.busy_by_worker)
        missing = max(seen.ready - len(averages), 0)
        unready = max(current - seen.ready, 0)
        desired = desired_by_usage(averages, missing, unready, target=target, current=current)
        if current == 0 or desired is None:
            return _held(seen), HpaMemory(seen.now_s, memory.past, window)
        workers, past = behaved(
            desired,
            current,
            memory.past,
            limits,
            now_s=seen.now_s,
            up_window_s=up_window_s,
            down_window_s=down_window_s,
        )
        numbers = {"busy": fmean(averages), "wanted": float(desired)}
        sizing = Sizing(workers, _reason(desired, workers, current), numbers)
        return sizing, HpaMemory(seen.now_s, past, window)

    return Rule("hpa", HpaMemory, size, period_s=PERIOD_S, reads_learned=False)


def desired_by_usage(
    usage: list[float], missing: int, unready: int, *, target: float, current: int
) -> int | None:
    """HPA's number for a Pods metric; None when no ready worker has one (an invalid metric: hold).

    A ready worker without a metric counts as being at target when shrinking and as idle
    when growing; one that is not ready counts as idle when growing. Whatever that
    turns round, or would, changes nothing.

    >>> desired_by_usage([0.9, 0.9], 0, 0, target=0.6, current=2)
    3
    >>> desired_by_usage([0.9, 0.9], 0, 1, target=0.6, current=3)  # the third is on its way
    3
    """
    if not usage:
        return None
    ratio = fmean(usage) / target
    if missing == 0 and not (unready and ratio > 1):
        return current if in_tolerance(ratio) else math.ceil(ratio * len(usage) - 1e-9)
    if ratio == 1:
        return current
    filled = sum(usage) + (missing * target if ratio < 1 else 0.0)
    count = len(usage) + missing + (unready if ratio > 1 else 0)
    again = filled / count / target
    if in_tolerance(again) or (ratio < 1 < again) or (again < 1 < ratio):
        return current
    desired = math.ceil(again * count - 1e-9)
    contradicts = (again < 1 and desired > current) or (again > 1 and desired < current)
    return current if contradicts else desired


def _remembered(
    seen: Situation, memory: HpaMemory, window_s: float
) -> tuple[tuple[float, dict[str, float]], ...]:
    first_s = seen.now_s - window_s + 1e-6
    return (
        *(entry for entry in memory.window if entry[0] > first_s),
        (seen.now_s, dict(seen.busy_by_worker)),
    )


def _averages(window: tuple[tuple[float, dict[str, float]], ...], now: Busy) -> list[float]:
    """Each ready worker's own average: one that joined within the window has a shorter one."""
    told = [busy for _, busy in window]
    names = list(now)
    if all(list(busy) == names for busy in told):  # nobody came or went, as nearly always
        return [sum(seen) / len(told) for seen in zip(*[busy.values() for busy in told], strict=True)]
    averages = []
    for worker in names:
        seen = [busy[worker] for busy in told if worker in busy]
        averages.append(sum(seen) / len(seen))
    return averages


def _held(seen: Situation) -> Sizing:
    return Sizing(seen.requested, Reason.STEADY)


def _reason(desired: int, workers: int, current: int) -> Reason:
    if workers > current:
        return Reason.TRAFFIC_RISE
    if workers < current:
        return Reason.TRAFFIC_FALL
    return Reason.SETTLING if desired < current else Reason.STEADY
