"""A fleet played forward over forecast demand: who is late, what it costs, when there is not enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from estimator.fleet.budget import Budget
from estimator.fleet.errors import InvalidFleet
from estimator.fleet.plan import FleetPlan
from estimator.fleet.sharing import NO_TENANTS, share
from estimator.fleet.standing import NOTHING, Configuration, JobId, Standing
from estimator.fleet.tenants import Tenants
from estimator.fleet.wish import DEFAULT_RULES, ShareRules, Wish


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a job will want: demand by step of the future, and what it can train with."""

    job: Standing
    curves: Mapping[str, tuple[float, ...]]
    """By GPU type, C_low(0), C_low(1), ..."""
    demand_per_s: tuple[float, ...]
    """Forecast traffic in each step; the last one holds beyond the end."""
    slo_s: float = 60.0
    """Trained later than this after it arrived is late."""
    restart: float = 1.0
    preferred: str = ""

    def __post_init__(self) -> None:
        if not self.demand_per_s or not all(math.isfinite(rate) and rate >= 0 for rate in self.demand_per_s):
            raise InvalidFleet(f"job {self.job.id} needs a demand for each step, a number from 0")
        if not self.slo_s > 0:
            raise InvalidFleet(f"job {self.job.id} promises {self.slo_s} s; it is above 0")

    def at(self, step: int) -> float:
        """Traffic in a step."""
        return self.demand_per_s[min(step, len(self.demand_per_s) - 1)]

    def starting(self, step: int) -> Outlook:
        """The same job when it begins that many steps later."""
        return Outlook(
            self.job,
            self.curves,
            (0.0,) * step + tuple(self.at(now) for now in range(step, max(step + 1, len(self.demand_per_s)))),
            self.slo_s,
            self.restart,
            self.preferred,
        )


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one job."""

    job: JobId
    weight: float
    arrived: tuple[float, ...]
    """Samples, by step."""
    late: tuple[float, ...]
    """Of those, the ones trained too late."""
    bill: tuple[float, ...]

    def late_share(self, steps: int | None = None) -> float:
        """Over the first `steps`, or all; 0 where nothing arrives."""
        arrived = math.fsum(self.arrived[:steps])
        return math.fsum(self.late[:steps]) / arrived if arrived > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Future:
    """What becomes of a fleet."""

    step_s: float
    fates: Mapping[JobId, Fate]
    contended: tuple[tuple[str, ...], ...]
    """By step, the types of which more is wished than there is."""

    def bill(self, steps: int | None = None) -> float:
        """What the GPUs in use cost over the first `steps`, or all."""
        return math.fsum(math.fsum(fate.bill[:steps]) for fate in self.fates.values())

    def late_share(self, steps: int | None = None) -> float:
        """The jobs' late shares, weighted."""
        weight = math.fsum(fate.weight for fate in self.fates.values())
        late = math.fsum(fate.weight * fate.late_share(steps) for fate in self.fates.values())
        return late / weight if weight > 0 else 0.0


def played(
    budget: Budget,
    outlooks: Sequence[Outlook],
    tenants: Tenants = NO_TENANTS,
    *,
    steps: int,
    step_s: float,
    rules: ShareRules = DEFAULT_RULES,
) -> Future:
    """Share the budget step after step, with what is not trained in one carried to the next."""
    backlog = {outlook.job.id: 0.0 for outlook in outlooks}
    current = {outlook.job.id: NOTHING for outlook in outlooks}
    rows: dict[JobId, list[tuple[float, float, float]]] = {outlook.job.id: [] for outlook in outlooks}
    contended = []
    weights: dict[JobId, float] = {}
    for step in range(steps):
        wishes = [
            _wish(outlook, step, backlog[outlook.job.id], current[outlook.job.id], step_s)
            for outlook in outlooks
        ]
        plan: FleetPlan = share(budget, wishes, tenants, rules=rules)
        contended.append(plan.contended)
        for outlook, allotment in zip(outlooks, plan.allotments, strict=True):
            job = outlook.job.id
            late, backlog[job] = _trained(outlook, step, allotment.given, backlog[job], step_s)
            price = budget.price(allotment.given.gpu_type)
            bill = outlook.job.gpus(allotment.given.workers) * price * step_s / 3600.0
            rows[job].append((outlook.at(step) * step_s, late, bill))
            current[job] = allotment.given
            weights[job] = allotment.weight
    fates = {
        job: Fate(
            job,
            weights.get(job, 0.0),
            tuple(row[0] for row in cells),
            tuple(row[1] for row in cells),
            tuple(row[2] for row in cells),
        )
        for job, cells in rows.items()
    }
    return Future(step_s, fates, tuple(contended))


def _wish(outlook: Outlook, step: int, backlog: float, current: Configuration, step_s: float) -> Wish:
    """The fewest workers on each type that train what arrives, and the backlog within the step."""
    demand = outlook.at(step) + backlog / step_s
    workers = {kind: _enough(curve, demand, outlook.job) for kind, curve in outlook.curves.items()}
    return Wish(
        outlook.job,
        workers,
        outlook.curves,
        demand,
        current=current,
        restart=outlook.restart,
        preferred=outlook.preferred,
    )


def _enough(curve: Sequence[float], demand: float, job: Standing) -> int:
    if demand <= 0:
        return job.workers_min
    best = max(range(len(curve)), key=lambda workers: (curve[workers], -workers))
    enough = next((workers for workers, rate in enumerate(curve) if rate >= demand), best)
    return min(max(enough, job.workers_min), job.workers_max)


def _trained(
    outlook: Outlook, step: int, at: Configuration, backlog: float, step_s: float
) -> tuple[float, float]:
    """Late samples of a step and the backlog after it: a queue that fills or drains evenly.

    What arrives waits for what is before it: the backlog over the speed. It is late where that is
    longer than was promised.
    """
    rate = outlook.at(step)
    speed = max(outlook.curves[at.gpu_type][: at.workers + 1]) if at else 0.0
    after = max(0.0, backlog + (rate - speed) * step_s)
    if rate <= 0:
        return 0.0, after
    if speed <= 0:
        return rate * step_s, after
    limit = outlook.slo_s * speed
    lowest, highest = min(backlog, after), max(backlog, after)
    if highest <= limit:
        return 0.0, after
    share = 1.0 if lowest >= limit else (highest - limit) / (highest - lowest)
    if after == 0.0 and backlog > 0:  # it drains before the step is over, and nobody waits from then on
        share *= min(1.0, backlog / ((speed - rate) * step_s)) if speed > rate else 1.0
    return share * rate * step_s, after
