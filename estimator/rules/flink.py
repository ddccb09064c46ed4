"""`flink`: the Flink autoscaler's rule for a job of one vertex that reads Kafka.

From `flink-autoscaler/.../{JobVertexScaler,ScalingMetricEvaluator,AutoScalerUtils}.java`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean

from estimator.reason import Reason
from estimator.rules.rule import Rule, is_due
from estimator.situation import Situation, Sizing

PERIOD_S = 60.0
CATCH_UP_S = 1800.0
RESTART_S = 300.0
STABILISATION_S = 300.0
WINDOW_S = 900.0
DOWN_DELAY_S = 3600.0
BACKLOG_S = 300.0
OBSERVE_FROM_LAG_S = 30.0
OBSERVED_MARGIN = 1.15
UTILISATION_MAX, UTILISATION_MIN = 1.0, 0.4
FACTOR_MIN, FACTOR_MAX = 0.4, 100_001.0
PARALLELISM_MAX = 200


@dataclass(frozen=True, slots=True)
class Reading:
    """One collection of metrics."""

    at_s: float
    trained_per_s: float
    lag: float
    busiest: float


@dataclass(frozen=True, slots=True)
class FlinkMemory:
    """The metric window since the last restart, and the scale-down that waits."""

    last_s: float | None = None
    workers: int = -1
    """The parallelism that runs; another one means a restart."""
    running_since_s: float = 0.0
    readings: tuple[Reading, ...] = ()
    down_since_s: float | None = None
    down_largest: int = 0


def flink(utilisation: float = 0.7, down_delay_s: float = DOWN_DELAY_S) -> Rule[FlinkMemory]:
    """Scale to what covers the lag, a restart and the rate at `utilisation`.

    Silent for five minutes and a full window of fifteen after each restart; a scale-down waits
    `down_delay_s` and then takes the largest size recommended meanwhile.
    """

    def size(seen: Situation, memory: FlinkMemory) -> tuple[Sizing, FlinkMemory]:
        if not is_due(memory.last_s, seen.now_s, PERIOD_S):
            return Sizing(seen.requested, Reason.STEADY), memory
        memory = _collected(seen, memory)
        stable_s = memory.running_since_s + STABILISATION_S
        window = tuple(r for r in memory.readings if r.at_s >= stable_s)
        if not window or seen.now_s - stable_s < WINDOW_S or seen.requested == 0:
            return Sizing(seen.requested, Reason.SETTLING), memory
        wanted, numbers = _recommended(seen, window, utilisation)
        return _delayed(seen, memory, wanted, numbers, down_delay_s)

    return Rule("flink", FlinkMemory, size, period_s=PERIOD_S, reads_learned=False)


def _collected(seen: Situation, memory: FlinkMemory) -> FlinkMemory:
    """The memory with this reading; emptied when the job does not run, or runs at another size."""
    runs_as_asked = seen.ready == seen.requested
    if not runs_as_asked or seen.ready != memory.workers:
        workers = seen.ready if runs_as_asked else -1
        return FlinkMemory(seen.now_s, workers, seen.now_s, (), memory.down_since_s, memory.down_largest)
    busiest = max(seen.busy_by_worker.values(), default=0.0)
    reading = Reading(seen.now_s, seen.trained_per_s, seen.lag, busiest)
    kept = tuple(r for r in memory.readings if r.at_s > seen.now_s - WINDOW_S - 1e-6)
    return FlinkMemory(
        seen.now_s,
        memory.workers,
        memory.running_since_s,
        (*kept, reading),
        memory.down_since_s,
        memory.down_largest,
    )


def _recommended(
    seen: Situation, window: tuple[Reading, ...], utilisation: float
) -> tuple[int, dict[str, float]]:
    """The parallelism to want now; the current one when it is within its bounds."""
    current = seen.requested
    rate_in = fmean(r.trained_per_s for r in window)
    span_s = window[-1].at_s - window[0].at_s
    growth = (window[-1].lag - window[0].lag) / span_s if span_s > 0 else 0.0
    ingest, lag = max(0.0, rate_in + growth), window[-1].lag
    true_rate = true_processing_rate(rate_in, fmean(r.busiest for r in window), lag)
    numbers = {"ingest_per_s": ingest, "true_rate_per_s": true_rate if math.isfinite(true_rate) else 0.0}

    def capacity(at: float, *, restart: bool) -> float:
        return round(lag / CATCH_UP_S + restart * ingest * RESTART_S / CATCH_UP_S + ingest / at)

    behind = rate_in > 0 and lag / rate_in > BACKLOG_S
    too_little = true_rate < capacity(UTILISATION_MAX, restart=False)
    too_much = not behind and true_rate > capacity(UTILISATION_MIN, restart=True)
    if not (too_little or too_much):
        return current, numbers
    factor = capacity(utilisation, restart=True) / true_rate if true_rate > 0 else FACTOR_MAX
    factor = min(max(factor, FACTOR_MIN), FACTOR_MAX)
    bound = min(max(current, PARALLELISM_MAX), seen.limits.workers_max)
    wanted = min(max(math.ceil(factor * current - 1e-9), 1), bound)
    return aligned(wanted, current, bound, partitions=len(seen.partition_lags)), numbers


def true_processing_rate(rate_in: float, busiest: float, lag: float) -> float:
    """What the job could process: from busy time, or as observed when that is clearly less.

    Busy time of the busiest subtask flatters a job whose subtasks wait on something else;
    while a backlog keeps it running at full speed, what it does is what it can do.

    >>> true_processing_rate(100.0, 0.5, lag=0.0), true_processing_rate(100.0, 0.5, lag=5000.0)
    (200.0, 100.0)
    """
    by_busy = rate_in / busiest if busiest > 0 else math.inf
    if lag >= OBSERVE_FROM_LAG_S * rate_in and by_busy > OBSERVED_MARGIN * rate_in:
        return rate_in
    return by_busy


def aligned(wanted: int, current: int, bound: int, *, partitions: int) -> int:
    """The next parallelism that spreads the partitions evenly, or at least better; else as wanted.

    >>> aligned(20, 10, 64, partitions=64), aligned(9, 30, 64, partitions=64)
    (22, 10)
    """
    if partitions == 0:
        return wanted
    last = bound if wanted > current else current
    for candidate in range(wanted, last + 1):
        if partitions % candidate == 0 or partitions // candidate < partitions // wanted:
            return candidate
    return wanted


def _delayed(
    seen: Situation, memory: FlinkMemory, wanted: int, numbers: dict[str, float], down_delay_s: float
) -> tuple[Sizing, FlinkMemory]:
    """Growing is immediate; shrinking waits from its first trigger, then takes the largest wish since."""
    current = seen.requested
    numbers = {**numbers, "wanted": float(wanted)}
    same = (memory.last_s, memory.workers, memory.running_since_s, memory.readings)
    if wanted >= current:
        reason = Reason.TRAFFIC_RISE if wanted > current else Reason.STEADY
        return Sizing(wanted, reason, numbers), FlinkMemory(*same)
    since_s = seen.now_s if memory.down_since_s is None else memory.down_since_s
    largest = max(wanted, memory.down_largest)
    if seen.now_s - since_s < down_delay_s:
        return Sizing(current, Reason.SETTLING, numbers), FlinkMemory(*same, since_s, largest)
    return Sizing(largest, Reason.TRAFFIC_FALL, numbers), FlinkMemory(*same)
