"""The universal scalability law, fitted to what busy workers did, in bounded time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Look = Callable[[Floats], tuple[float, Floats, Floats]]

RATE_SD = 1.0
"""Of log λ: the operator's guess may be wrong by a factor of e."""
COHERENCY = 1e-4
COHERENCY_SD = 1.5
CONTENTION_SD = 1.0
CONTENTION_SHOWN = 0.01
"""Contention expected beyond a queue that telemetry shows."""
CONTENTION_SHOWN_SD = 1.5
CROWDS = ((0.0, 0.0), (1.0, 3.0))
"""(share of idle workers that slow the others, what believing it costs in log probability)."""
ROUNDS = 40
SETTLED = 1e-5
"""Gain in log probability, relative, below which a step was the last."""
FREE = 0.01
"""Damping below which a step counts as free."""
NEXT_TO_NONE = 1e-12
LOG_COHERENT, LOG_CONTENDED = -6.0, -1.5
"""log κ and log σ of other starts: both explain much alike, each with a minimum of its own."""
LOG_SHARE_MAX = 0.0
"""σ and κ never exceed 1."""


@dataclass(frozen=True, slots=True)
class SpeedPoint:
    """`busy` of `workers` workers trained exp(`log_speed`) samples a busy second; `sd` is of that log."""

    workers: float
    busy: float
    log_speed: float
    sd: float


@dataclass(frozen=True, slots=True)
class Law:
    """Speed of a busy worker = λ / (1 + σ(m-1) + κm(m-1)), m = busy + α·(workers - busy).

    With α = 0 only busy workers stand in each other's way (a queue at the parameter
    server), with α = 1 idle ones do too (a barrier, a broadcast). When all are busy, m = n
    for every α, and n times the speed is C(n) = λn / (1 + σ(n-1) + κn(n-1)).
    """

    idle_share: float
    """α"""
    weight: float
    """Posterior probability of this α among those tried."""
    log_rate: float
    log_contention: float
    log_coherency: float

    def log_speed(self, workers: float, busy: float) -> float:
        m = max(busy + self.idle_share * (workers - busy), 1.0)
        crowding = math.exp(self.log_contention) * (m - 1) + math.exp(self.log_coherency) * m * (m - 1)
        return self.log_rate - math.log1p(crowding)


@dataclass(frozen=True, slots=True)
class LawPrior:
    """Where λ, σ and κ are expected before anything is seen."""

    rate: float
    contention: float
    contention_sd: float = CONTENTION_SD

    @property
    def means(self) -> Floats:
        return np.array([math.log(self.rate), math.log(max(self.contention, 1e-6)), math.log(COHERENCY)])

    @property
    def precisions(self) -> Floats:
        return np.array([RATE_SD**-2, self.contention_sd**-2, COHERENCY_SD**-2])


def prior_laws(prior: LawPrior) -> tuple[Law, ...]:
    """The law before anything was seen: the prior's own, without coherency."""
    contention = math.log(max(prior.contention, NEXT_TO_NONE))
    return (Law(0.0, 1.0, math.log(prior.rate), contention, math.log(NEXT_TO_NONE)),)


def fit(points: Sequence[SpeedPoint], prior: LawPrior, *, start: tuple[Law, ...] = ()) -> tuple[Law, ...]:
    """One law per α, weighted by how well it explains the points; `start` are the laws found last time.

    α cannot be told from a single window; the cost of α > 0 then leaves the law that
    promises less. Time is bounded: ROUNDS steps on as many points as there are.
    """
    known = {law.idle_share: law for law in start}
    found = [_most_probable(points, prior, alpha, known.get(alpha)) for alpha, _ in CROWDS]
    costs = np.array([cost + belief for (_, cost), (_, belief) in zip(found, CROWDS, strict=True)])
    weights = np.exp(costs.min() - costs)
    weights /= weights.sum()
    return tuple(
        Law(alpha, float(weight), *map(float, theta))
        for (alpha, _), weight, (theta, _) in zip(CROWDS, weights, found, strict=True)
        if weight > 1e-3
    )


def log_speed(laws: tuple[Law, ...], workers: float, busy: float) -> float:
    """The laws' mean log speed of a busy worker."""
    total = sum(law.weight for law in laws)
    return sum(law.weight * law.log_speed(workers, busy) for law in laws) / total


def log_speeds(laws: tuple[Law, ...], workers: Floats, busy: Floats) -> Floats:
    """`log_speed` of many at once."""
    means = np.zeros_like(busy)
    for law in laws:
        m = np.maximum(busy + law.idle_share * (workers - busy), 1.0)
        crowding = math.exp(law.log_contention) * (m - 1) + math.exp(law.log_coherency) * m * (m - 1)
        means += law.weight * (law.log_rate - np.log1p(crowding))
    return means / sum(law.weight for law in laws)


def _most_probable(
    points: Sequence[SpeedPoint], prior: LawPrior, alpha: float, start: Law | None
) -> tuple[Floats, float]:
    """θ = (log λ, log σ, log κ) that minimises

        Σ ρ((y - log speed_θ(m)) / sd) + ½ Σ ((θ - θ₀) / sd₀)²,    ρ(r) = √(1 + r²) - 1  (soft L1)

    and that minimum.
    """
    y, m, sd = _columns(points, alpha)
    means, precisions = prior.means, prior.precisions

    def look(theta: Floats) -> tuple[float, Floats, Floats]:
        """Cost, residuals, and their slopes in θ."""
        contention, coherency = math.exp(theta[1]) * (m - 1), math.exp(theta[2]) * m * (m - 1)
        crowding = 1 + contention + coherency
        residuals = (y - theta[0] + np.log(crowding)) / sd
        slopes = np.stack([-np.ones_like(m), contention / crowding, coherency / crowding]) / sd
        cost = np.sum(np.sqrt(1 + residuals**2) - 1) + np.sum(precisions * (theta - means) ** 2) / 2
        return float(cost), residuals, slopes

    if start is not None:
        near = np.array([start.log_rate, start.log_contention, start.log_coherency])
        return _descend(look, near, means, precisions)
    shapes = ((means[1], means[2]), (means[1], LOG_COHERENT), (LOG_CONTENDED, means[2]))
    firsts = (np.array([y.max(), *shape]) for shape in shapes)
    return min((_descend(look, first, means, precisions) for first in firsts), key=lambda end: end[1])


def _descend(look: Look, theta: Floats, means: Floats, precisions: Floats) -> tuple[Floats, float]:
    """Levenberg-Marquardt steps, ROUNDS at most."""
    cost, residuals, slopes = look(theta)
    damping = 1e-3
    for _ in range(ROUNDS):
        slack = 1 + residuals**2
        # ρ' = r/√(1+r²) pulls. Its slope from 0, ρ'/r, bounds ρ'' from above: no step goes too far.
        pull = slack**-0.5
        gradient = slopes @ (residuals * pull) + precisions * (theta - means)
        curvature = (slopes * pull) @ slopes.T + np.diag(precisions)
        step = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), gradient)
        trial = theta - np.clip(step, -2.0, 2.0)
        trial[1:] = np.minimum(trial[1:], LOG_SHARE_MAX)
        looked = look(trial)
        if looked[0] > cost:
            damping *= 10
            continue
        gained = cost - looked[0]
        theta, (cost, residuals, slopes) = trial, looked
        # A step that was held back gains little wherever it is; only a free one tells of the end.
        if gained < SETTLED * (1 + cost) and damping <= FREE:
            break
        damping = max(damping / 10, 1e-9)
    return theta, cost


def _columns(points: Sequence[SpeedPoint], alpha: float) -> tuple[Floats, Floats, Floats]:
    table = np.array([(p.workers, p.busy, p.log_speed, p.sd) for p in points])
    crowd = table[:, 1] + alpha * (table[:, 0] - table[:, 1])
    return table[:, 2], np.maximum(crowd, 1.0), table[:, 3]
