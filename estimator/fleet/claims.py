"""A wish, held against the budget: on which types, how many at most, and what each count is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from estimator.fleet.budget import Budget
from estimator.fleet.errors import InvalidFleet
from estimator.fleet.standing import NOTHING, Configuration, JobId
from estimator.fleet.tenants import Tenants
from estimator.fleet.wish import Wish

EXACT = 1e-9
"""Satisfactions that differ by less are the same."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One job's wish on the types that are there."""

    wish: Wish
    weight: float
    most: Mapping[str, int]
    """By type that it may use and that is there: the wish within the job's limits."""
    curves: Mapping[str, tuple[float, ...]]
    home: str
    """The type on which its guarantee is held; empty where it has none there."""
    asked: Configuration
    rising: bool = False
    """Whether the curves are their own running maxima already: worked out only where they are searched."""

    @property
    def id(self) -> JobId:
        """Whose claim it is."""
        return self.wish.job.id

    def samples_per_s(self, gpu_type: str, workers: int) -> float:
        """What so many workers train at best: past a peak of the curve, more are worth what fewer were."""
        curve = self.curves[gpu_type]
        if self.rising:
            return curve[min(workers, len(curve) - 1)]
        return max(curve[: workers + 1])

    def satisfaction(self, at: Configuration) -> float:
        """min(1, C_low / demand); whoever demands nothing is satisfied."""
        if self.wish.demand_per_s <= 0:
            return 1.0
        if not at or at.gpu_type not in self.curves:
            return 0.0
        return min(1.0, self.samples_per_s(at.gpu_type, at.workers) / self.wish.demand_per_s)

    def after_resize(self, at: Configuration) -> float:
        """Satisfaction, less what a pause costs where going there from what it has stops training."""
        moves = bool(self.wish.current) and at != self.wish.current
        return self.satisfaction(at) * (self.wish.restart if moves and self.wish.demand_per_s > 0 else 1.0)

    def least(self, gpu_type: str) -> int:
        """The fewest workers it can run with, when it runs at all."""
        return max(1, min(self.wish.job.workers_min, self.most.get(gpu_type, 0)))

    @property
    def promised(self) -> Configuration:
        """What its guarantee gives it now: no more than it wishes."""
        workers = min(self.wish.job.guaranteed, self.most.get(self.home, 0))
        return Configuration(self.home, workers) if workers else NOTHING

    @property
    def pinned(self) -> Configuration | None:
        """What it must keep; None where it is free to be resized."""
        return self.wish.current if self.wish.pinned else None

    def gpus(self, at: Configuration) -> float:
        """GPUs that a configuration takes."""
        return self.wish.job.gpus(at.workers)


def claims_of(
    wishes: Sequence[Wish], budget: Budget, tenants: Tenants, homes: Mapping[JobId, str]
) -> list[Claim]:
    """Every wish as a claim, in the same order. The same job twice is an error."""
    weights = tenants.weights(wish.job for wish in wishes)
    if len(weights) < len(wishes):
        ids = [wish.id for wish in wishes]
        twice = next(job for job in ids if ids.count(job) > 1)
        raise InvalidFleet(f"job {twice} wishes twice; jobs of one name need tenants to tell them apart")
    largest = {kind: max(budget.node_sizes(kind), default=0) for kind in budget.gpus}
    return [_claim(wish, weights[wish.id], largest, homes.get(wish.id, ""), budget) for wish in wishes]


def searchable(claim: Claim) -> Claim:
    """The same claim with the running maximum of each curve worked out."""
    if claim.rising:
        return claim
    rising = {kind: tuple(accumulate(curve, max)) for kind, curve in claim.curves.items()}
    return replace(claim, curves=rising, rising=True)


def _claim(wish: Wish, weight: float, largest: Mapping[str, int], home: str, budget: Budget) -> Claim:
    job = wish.job
    most = {
        kind: min(max(workers, job.workers_min) if workers else 0, job.workers_max)
        for kind, workers in wish.workers.items()
        if largest.get(kind, 0) >= job.gpus_per_worker and job.may_use(kind)
    }
    kinds = most.keys() | ({wish.current.gpu_type} & wish.curves.keys())
    curves = {kind: curve for kind, curve in wish.curves.items() if kind in kinds}
    claim = Claim(wish, weight, most, curves, home if home in most else "", NOTHING)
    return replace(claim, asked=_asked(claim, budget))


def _asked(claim: Claim, budget: Budget) -> Configuration:
    """What it would take if it were alone: the type it prefers, else the cheapest that satisfies best.

    Between equals it stays where it is.
    """
    wish = claim.wish
    if wish.preferred in claim.most:
        workers = claim.most[wish.preferred]
        return Configuration(wish.preferred, workers) if workers else NOTHING
    choices = [Configuration(kind, workers) for kind, workers in claim.most.items() if workers]
    if not choices:
        return _asked_elsewhere(wish)

    def rank(choice: Configuration) -> tuple[float, float, bool, str]:
        short = round(1.0 - claim.satisfaction(choice), 9)
        bill = claim.gpus(choice) * budget.price(choice.gpu_type)
        return short, bill, choice.gpu_type != wish.current.gpu_type, choice.gpu_type

    return min(choices, key=rank)


def _asked_elsewhere(wish: Wish) -> Configuration:
    """What it asked for on a type that is not there, so that the plan can say what it did not get."""
    kind = wish.preferred or next((kind for kind, workers in wish.workers.items() if workers), "")
    workers = wish.workers.get(kind, 0)
    return Configuration(kind, workers) if workers else NOTHING
