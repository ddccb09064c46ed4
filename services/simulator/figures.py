"""What a run comes to: the figures by which policies are judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from services.simulator import layout as at
from services.simulator.plant import Plant
from services.simulator.run import Run
from services.simulator.trace import Floats

MINUTES_A_DAY = 1440
RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one policy on one trace and plant."""

    late_share: float
    """Share of samples trained later than the SLO, those drained after the end included."""
    over_slo_share: float
    """Share of the time in which the oldest untrained sample was older than the SLO."""
    gpu_hours: float
    """GPUs held: starting, ready and draining, to the end of the drain."""
    mean_lag: float
    """Samples waiting, averaged over time."""
    accumulated_lag: float
    """Samples waiting, summed over seconds."""
    p50_delay_s: float
    p99_delay_s: float
    downtime_s: float
    """Seconds in which a resize kept every worker from training."""
    worker_s_lost: float
    """Worker-seconds lost to resizes, so that partial pauses count too."""
    gpu_utilisation: float
    """Samples trained over what the workers held could have trained."""
    resizes: int
    """Changes asked for."""
    reversals: int
    """Changes that undid the direction of the one before within one start-up time."""
    failures: int = 0
    late_share_interval: tuple[float, float] = (0.0, 0.0)
    """90 % bootstrap interval over days."""
    gpu_hours_interval: tuple[float, float] = (0.0, 0.0)


def figures_of(run: Run, plant: Plant, *, seed: int = 0) -> Figures:
    """All figures of a run."""
    scored, total = run.minutes[:-1], run.minutes.sum(axis=0)
    seconds = 60.0 * len(scored)
    during = scored.sum(axis=0)
    late, hours = _intervals(run.minutes, plant, seed)
    return Figures(
        late_share=_share(total[at.M_LATE], total[at.M_TRAINED]),
        over_slo_share=_share(during[at.M_OVER_SLO], seconds),
        gpu_hours=float(total[at.M_HELD]) * plant.gpus_per_worker / 3600,
        mean_lag=float(during[at.M_LAG_AREA]) / seconds,
        accumulated_lag=float(total[at.M_LAG_AREA]),
        p50_delay_s=delay_quantile(run.delays, 0.5),
        p99_delay_s=delay_quantile(run.delays, 0.99),
        downtime_s=float(during[at.M_DOWN]),
        worker_s_lost=float(during[at.M_LOST]),
        gpu_utilisation=_share(total[at.M_TRAINED], total[at.M_CAPACITY]),
        resizes=len(run.asked) - 1,
        reversals=reversals(run.asked, within_s=plant.startup_typical_s),
        failures=run.failures,
        late_share_interval=late,
        gpu_hours_interval=hours,
    )


def delay_quantile(delays: Floats, level: float) -> float:
    """The delay that a share `level` of the samples does not exceed; 0 when none was trained."""
    total = float(delays.sum())
    if total <= 0:
        return 0.0
    place = int(np.searchsorted(np.cumsum(delays), level * total * (1 - 1e-12)))
    if place < at.FINE_BINS:
        return float(place)
    return float(at.FINE_BINS + 60 * (min(place, at.DELAY_BINS - 1) - at.FINE_BINS))


def reversals(asked: tuple[tuple[int, int], ...], *, within_s: float) -> int:
    """Changes against the direction of the one before, within `within_s` of it.

    >>> reversals(((0, 4), (10, 6), (40, 5), (900, 7)), within_s=180.0)
    1
    """
    found = 0
    for (_, first), (second_s, middle), (third_s, last) in zip(asked, asked[1:], asked[2:], strict=False):
        turned = (middle - first) * (last - middle) < 0
        found += turned and third_s - second_s <= within_s
    return found


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


def _intervals(minutes: Floats, plant: Plant, seed: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """90 % bootstrap intervals of late share and GPU-hours, whole days drawn with replacement."""
    days = max(1, len(minutes) // MINUTES_A_DAY)
    edges = [day * MINUTES_A_DAY for day in range(days)]
    sums = np.add.reduceat(minutes, edges, axis=0)
    chosen = np.random.default_rng([seed, 4]).integers(0, days, (RESAMPLES, days))
    drawn = sums[chosen].sum(axis=1)
    late = drawn[:, at.M_LATE] / np.maximum(drawn[:, at.M_TRAINED], 1e-9)
    hours = drawn[:, at.M_HELD] * plant.gpus_per_worker / 3600
    return _middle(late), _middle(hours)


def _middle(values: Floats) -> tuple[float, float]:
    low, high = np.quantile(values, (0.05, 0.95))
    return float(low), float(high)
