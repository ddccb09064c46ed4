"""`autopilot`: Google Autopilot's horizontal scaling (§3.3 of its paper).

[inf] marks what the paper leaves open: the removal factor a step (2^(-1/12), so
that the pool halves in an hour) and what difference is small (5 %).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from estimator.capacity import Capacity
from estimator.reason import Reason
from estimator.rules.rule import Rule, is_due
from estimator.situation import Situation, Sizing
from forecasting.history import TrafficHistory

PERIOD_S = 60.0
SAMPLE_S = 300.0
DAY_S = 86_400.0
SHRINK = 2.0 ** (-1 / 12)
SMALL = 0.05


@dataclass(frozen=True, slots=True)
class AutopilotMemory:
    """Usage in workers, averaged over five minutes, and what was recommended from it."""

    last_s: float | None = None
    sample_from_s: float | None = None
    """Since when the sample being gathered runs; None before the first tick."""
    sum: float = 0.0
    count: int = 0
    usage: tuple[float, ...] = ()
    recommended: tuple[float, ...] = ()
    level: float = 0.0
    """The size with its fraction, so that small pools shrink at the right pace too."""


def autopilot(
    utilisation: float = 0.8,
    horizon_s: float = 3 * DAY_S,
    hold_s: float = 2 * DAY_S,
    quantile: float = 0.95,
) -> Rule[AutopilotMemory]:
    """n = the largest of `hold_s` of: `quantile` of usage over `horizon_s`, over `utilisation`.

    Growing is immediate. With days in its window it is close to a static peak; the
    scaled-horizon variant shortens both windows.
    """
    samples, held = max(1, round(horizon_s / SAMPLE_S)), max(1, round(hold_s / SAMPLE_S))

    def size(seen: Situation, memory: AutopilotMemory) -> tuple[Sizing, AutopilotMemory]:
        if not is_due(memory.last_s, seen.now_s, PERIOD_S):
            return Sizing(seen.requested, Reason.STEADY), memory
        if memory.sample_from_s is None:
            memory = _primed(seen, samples, held)
        total, count = memory.sum + sum(seen.busy_by_worker.values()), memory.count + 1
        if not is_due(memory.sample_from_s, seen.now_s, SAMPLE_S):
            gathered = AutopilotMemory(
                seen.now_s, memory.sample_from_s, total, count, memory.usage, memory.recommended, memory.level
            )
            return Sizing(seen.requested, Reason.STEADY), gathered
        usage = (*memory.usage, total / count)[-samples:]
        now = _high(usage, quantile) / utilisation
        recommended = (*memory.recommended, now)[-held:]
        wanted = max(recommended)
        level = _stepped(max(memory.level, float(seen.requested) - 0.999), wanted)
        workers = math.ceil(level - 1e-9)
        numbers = {"usage": usage[-1], "wanted": wanted}
        reason = _reason(workers, seen.requested)
        return Sizing(workers, reason, numbers), AutopilotMemory(
            seen.now_s, seen.now_s, 0.0, 0, usage, recommended, level
        )

    def _primed(seen: Situation, samples: int, held: int) -> AutopilotMemory:
        """Start from the traffic before the first tick, turned into the usage it would have been."""
        if seen.history is None:
            return AutopilotMemory(sample_from_s=seen.now_s)
        usage = _usage_of(seen.history, seen.capacity, seen.limits.workers_max, samples + held)
        first = max(len(usage) - held, 0)
        recommended = tuple(
            _high(usage[max(i + 1 - samples, 0) : i + 1], quantile) / utilisation
            for i in range(first, len(usage))
        )
        return AutopilotMemory(
            sample_from_s=seen.now_s, usage=usage[-samples:], recommended=recommended, level=0.0
        )

    return Rule("autopilot", AutopilotMemory, size, period_s=PERIOD_S)


def _high(usage: tuple[float, ...], quantile: float) -> float:
    return float(np.quantile(np.array(usage), quantile)) if usage else 0.0


def _stepped(level: float, wanted: float) -> float:
    """Up at once; down by a step that halves the pool in an hour; a small difference is left alone.

    >>> _stepped(10.0, 12.0), round(_stepped(10.0, 4.0), 2), _stepped(10.0, 9.8)
    (12.0, 9.44, 10.0)
    """
    if abs(wanted - level) < SMALL * level:
        return level
    return wanted if wanted > level else max(wanted, level * SHRINK)


def _usage_of(
    history: TrafficHistory, capacity: Capacity, workers_max: int, samples: int
) -> tuple[float, ...]:
    """Usage in workers: from C(n) = r·n/(1+c(n-1)), n = r'(1-c)/(r - r'c) at rate r'."""
    width = max(1, round(SAMPLE_S / history.step_s))
    rates = history.rates[-samples * width :]
    rates = rates[~np.isnan(rates)]
    whole = len(rates) // width
    means = rates[len(rates) - whole * width :].reshape(whole, width).mean(axis=1)
    headroom = np.maximum(capacity.rate_per_worker - means * capacity.contention, 1e-9)
    usage = np.minimum(means * (1 - capacity.contention) / headroom, float(workers_max))
    return tuple(float(value) for value in usage)


def _reason(workers: int, current: int) -> Reason:
    if workers > current:
        return Reason.TRAFFIC_RISE
    return Reason.TRAFFIC_FALL if workers < current else Reason.STEADY
