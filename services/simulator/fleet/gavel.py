"""`gavel`: heterogeneity-aware max-min fairness over time fractions, in rounds (Narayanan et al., OSDI'20).

Maximise the least of  scale_j / weight_j · throughput_j(X) / throughput_j(X_equal)  with X_jk the fraction
of time that job j has `scale_j` workers of type k: fractions of a job add up to at most 1, GPUs of a type to
what there is. Each round of six minutes gives GPUs to the pairs of job and type that lag most behind their
fraction: priority = X_jk / share of time received, a job with all its workers or none.

Ours, since a stream is no batch job: `scale_j` is what an HPA would ask for at that moment (Gavel's jobs have
a fixed one), and the time received is that of the last ten rounds, since fractions move with the traffic.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from services.simulator.fleet.file import FleetFile
from services.simulator.fleet.hpa_jobs import PERIOD, HpaJobs
from services.simulator.fleet.kernel import Counts
from services.simulator.fleet.seen import FleetDecision, FleetSeen
from services.simulator.fleet.traffic import FleetTraffic
from services.simulator.fleet.world import Sizes
from services.simulator.trace import Floats

ROUND_S = 360
ROUNDS_KEPT = 10


class Gavel:
    """Decides every 15 s what the scale factors are, and every six minutes who runs."""

    period_s = PERIOD

    def __init__(self, fleet: FleetFile, traffic: FleetTraffic) -> None:
        del traffic
        self._hpa = HpaJobs(fleet)
        self._weights = np.array([max(job.weight, 1e-3) for job in fleet.jobs])
        self._received: list[Sizes] = []
        self._round_s: float | None = None
        self._sizes: Sizes | None = None
        self._contended = False

    def decide(self, seen: FleetSeen) -> FleetDecision:
        scale = np.minimum(self._hpa.wanted(seen), seen.capacity.max())
        wanted = _at_home(seen, scale)
        if self._sizes is None or self._round_s is None or seen.now_s - self._round_s >= ROUND_S - 1:
            self._round_s = seen.now_s
            speeds = np.stack(
                [
                    [seen.curve(job, kind, int(scale[job]))[-1] for kind in range(seen.rates.shape[1])]
                    for job in range(len(scale))
                ]
            )
            fractions = fair_fractions(speeds, scale, self._weights, seen.capacity)
            self._sizes = self._round(fractions, scale, seen)
            self._contended = bool((self._sizes.sum(axis=1) < scale).any())
        return FleetDecision(self._sizes, wanted, self._contended)

    def _round(self, fractions: Floats, scale: Counts, seen: FleetSeen) -> Sizes:
        """Greedy by priority; whoever goes on where it is keeps its workers."""
        had = np.sum(self._received[-ROUNDS_KEPT:], axis=0) if self._received else np.zeros(fractions.shape)
        share = (had + 0.5) / (len(self._received[-ROUNDS_KEPT:]) + 0.5)
        priority = fractions / share
        order = np.argsort(-priority, axis=None, kind="stable")
        left = seen.capacity.copy()
        sizes = np.zeros(fractions.shape, dtype=np.int64)
        for place in order:
            job, kind = divmod(int(place), fractions.shape[1])
            if seen.rates[job, kind] <= 0 or sizes[job].any() or scale[job] > left[kind]:
                continue
            sizes[job, kind] = scale[job]
            left[kind] -= scale[job]
        self._received.append((sizes > 0).astype(np.int64))
        return sizes


def fair_fractions(speeds: Floats, scale: Counts, weights: Floats, capacity: Counts) -> Floats:
    """X of the max-min programme; among those, one with the most normalised throughput in sum.

    The second step keeps a fleet busy that the least job does not fill.
    """
    jobs, kinds = speeds.shape
    equal = np.maximum(speeds @ (capacity / capacity.sum()), 1e-12)
    worth = scale[:, None] / weights[:, None] * speeds / equal[:, None]
    many = jobs * kinds
    rows = np.zeros((2 * jobs + kinds, many + 1))
    limits = np.concatenate([np.zeros(jobs), np.ones(jobs), capacity.astype(np.float64)])
    for job in range(jobs):
        at = slice(job * kinds, (job + 1) * kinds)
        rows[job, at], rows[job, many] = -worth[job], 1.0
        rows[jobs + job, at] = 1.0
    for kind in range(kinds):
        rows[2 * jobs + kind, kind:many:kinds] = scale
    bounds = [(0.0, 1.0 if speed > 0 else 0.0) for speed in speeds.ravel()]
    least = linprog(
        np.append(np.zeros(many), -1.0), rows, limits, bounds=[*bounds, (0.0, None)], method="highs"
    )
    if least.x is None:
        raise RuntimeError(f"Gavel's programme was not solved: {least.message}")
    level = float(least.x[-1]) * (1 - 1e-9)
    goal = np.append(-(worth / np.maximum(worth.max(axis=1, keepdims=True), 1e-12)).ravel(), 0.0)
    most = linprog(goal, rows, limits, bounds=[*bounds, (level, level)], method="highs")
    found = least.x if most.x is None else most.x
    fractions: Floats = np.clip(found[:-1].reshape(jobs, kinds), 0.0, 1.0)
    return fractions


def _at_home(seen: FleetSeen, scale: Counts) -> Sizes:
    sizes = np.zeros(seen.requested.shape, dtype=np.int64)
    for place, job in enumerate(seen.fleet.jobs):
        sizes[place, seen.fleet.kinds.index(job.home)] = scale[place]
    return sizes
