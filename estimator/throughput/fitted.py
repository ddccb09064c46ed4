"""What a fit yields: laws and queue side by side, and C(n) from both and from what was seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from estimator.throughput.closed_queue import ClosedQueue, at, queue_through, solve
from estimator.throughput.scalability import (
    CONTENTION_SHOWN,
    CONTENTION_SHOWN_SD,
    Floats,
    Law,
    LawPrior,
    SpeedPoint,
    fit,
    log_speed,
    log_speeds,
    prior_laws,
)
from estimator.throughput.speed_rows import SETTLED, SpeedRow
from estimator.throughput.step_times import StepMeans
from estimator.throughput.utilisation import Utilisation

LONE_SD = 0.03
"""Of the speed of a lone worker as its step times tell it."""
MISFIT_MIN = 0.005
BEND_SD = 0.03
"""How far C(n) may be expected to lie off law and queue, where it has been seen."""
BEND_WIDTH = 0.04
"""How far, in log n, what was seen at one size tells of others."""
CURVE_MIN = 64
CURVE_MAX = 4096


@dataclass(frozen=True, slots=True)
class Fitted:
    """C(n) = min(closed queue, universal scalability law), bent to what was seen where it was seen.

    The queue knows a ceiling before it binds, the law knows what slows workers and is no
    queue; neither knows a staircase, so the sizes seen count for themselves.
    """

    laws: tuple[Law, ...]
    queue: ClosedQueue | None = None
    curve: tuple[float, ...] = (0.0,)
    """C(0), C(1), ..., ready to be read."""
    misfit: float = MISFIT_MIN
    """Root mean square of what the rows' log speeds differ from law and queue."""
    crowd_seen: float = 0.0
    """The largest crowd m that a row tells of; beyond it C(n) is extrapolated."""

    def capacity(self, workers: int) -> float:
        """Samples/s of `workers` workers that are never idle; beyond the curve's end, as it ends."""
        return self.curve[min(workers, len(self.curve) - 1)]

    def log_speed(self, workers: int, busy: float) -> float:
        """Of a busy worker, `busy` of `workers` being so, by law and queue alone."""
        by_law = log_speed(self.laws, workers, busy)
        if self.queue is None:
            return by_law
        crowd = max(busy, 1.0)
        return min(by_law, math.log(at(solve(self.queue, int(crowd) + 1), crowd) / crowd))

    @property
    def contention(self) -> float:
        """σ"""
        return math.exp(sum(law.weight * law.log_contention for law in self.laws))


def unfitted(prior: LawPrior) -> Fitted:
    """Before anything was seen."""
    laws = prior_laws(prior)
    return Fitted(laws, curve=_as_curve(_smooth(laws, None, 2 * CURVE_MIN)))


def borrowed(known: Fitted, ratio: float) -> Fitted:
    """C(n) of workers `ratio` times as fast alone, at the same shared resources.

    The law scales as a whole; the queue keeps its D, for a faster GPU makes no shard faster.
    """
    laws = tuple(replace(law, log_rate=law.log_rate + math.log(ratio)) for law in known.laws)
    queue = known.queue
    if queue is not None:
        alone_s = (queue.own_s + queue.demand_s) / ratio
        queue = replace(queue, own_s=max(alone_s - queue.demand_s, 0.0))
    return Fitted(laws, queue, _as_curve(_smooth(laws, queue, len(known.curve) - 1)))


def refit(
    rows: tuple[SpeedRow, ...],
    steps: StepMeans | None,
    resources: tuple[Utilisation, ...],
    prior: LawPrior,
    *,
    noise_sd: float,
    start: tuple[Law, ...] = (),
) -> Fitted:
    """The most probable laws, and the queue that telemetry shows. At least one row."""
    queue = _queue_of(rows, resources)
    points = [row.as_point(noise_sd) for row in rows]
    if queue is not None and steps is not None:
        # Step times tell what a worker would do alone: with one size seen, the law has two.
        points.append(SpeedPoint(1.0, 1.0, math.log(steps.lone_speed(queue.demand_s)), LONE_SD))
        prior = LawPrior(prior.rate, min(prior.contention, CONTENTION_SHOWN), CONTENTION_SHOWN_SD)
    laws = fit(points, prior, start=start)
    workers = np.array([row.workers for row in rows], dtype=np.float64)
    busy = np.array([row.busy for row in rows])
    idle_share = sum(law.weight * law.idle_share for law in laws)
    crowds = np.maximum(busy + idle_share * (workers - busy), 1.0)
    smooth = _smooth(laws, queue, min(max(CURVE_MIN, 2 * int(workers.max())), CURVE_MAX))
    expected = log_speeds(laws, workers, busy)
    if queue is not None:
        by_queue = np.array(solve(queue, len(smooth)))
        expected = np.minimum(expected, np.log(np.interp(busy, range(len(by_queue)), by_queue) / busy))
    off = np.array([row.log_speed for row in rows]) - expected
    variances = noise_sd**2 / np.array([row.count for row in rows]) + MISFIT_MIN**2
    bends = _bends(crowds, off, variances, len(smooth))
    misfit = math.sqrt(float(np.average(off**2, weights=1 / variances)))
    return Fitted(laws, queue, _as_curve(smooth + bends), max(MISFIT_MIN, misfit), float(crowds.max()))


def _queue_of(rows: Sequence[SpeedRow], resources: tuple[Utilisation, ...]) -> ClosedQueue | None:
    """The queue at the most loaded resource, through the fastest row: there, least else stood in the way."""
    busiest = max(resources, key=lambda resource: resource.demand_s, default=None)
    if busiest is None or busiest.demand_s <= 0:
        return None
    settled = [row for row in rows if row.count >= SETTLED] or rows
    fastest = max(settled, key=lambda row: row.log_speed)
    return queue_through(
        cycle_s=math.exp(-fastest.log_speed),
        busy=fastest.busy,
        demand_s=busiest.demand_s,
        service_cv2=1.0 if busiest.cv2 is None else busiest.cv2,
    )


def _smooth(laws: tuple[Law, ...], queue: ClosedQueue | None, workers: int) -> Floats:
    """log C(1), log C(2), ... by law and queue."""
    n = np.arange(1.0, workers + 1)
    by_law: Floats = np.log(n) + log_speeds(laws, n, n)
    return by_law if queue is None else np.minimum(by_law, np.log(solve(queue, workers)[1:]))


def _bends(crowds: Floats, off: Floats, variances: Floats, workers: int) -> Floats:
    """How far log C(n) lies off law and queue, by the rows near n; a Gaussian process cut short.

    Beyond the largest crowd seen nothing is known, except that a law which promised
    too much at the edge will not promise less further out.
    """
    n = np.log(np.arange(1.0, workers + 1))
    edge = np.log(crowds.max())
    near = np.exp(-(((np.minimum(n, edge)[:, None] - np.log(crowds)[None, :]) / BEND_WIDTH) ** 2) / 2)
    weights = near / variances
    bends: Floats = (weights @ off) / (weights.sum(axis=1) + BEND_SD**-2)
    return np.where(n > edge, np.minimum(bends, 0.0), bends)


def _as_curve(logs: Floats) -> tuple[float, ...]:
    return (0.0, *np.exp(logs).tolist())
