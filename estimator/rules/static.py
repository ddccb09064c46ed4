"""`static-max`, `static-mean`: a fixed pool, sized once. For scale: nobody knows the peak beforehand."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.reason import Reason
from estimator.rules.rule import Rule
from estimator.situation import Situation, Sizing

PERIOD_S = 300.0
"""Nothing ever changes; it only has to notice when somebody else resized the pool."""


@dataclass(frozen=True, slots=True)
class StaticMemory:
    """The size chosen at the first tick."""

    workers: int | None = None


def static_max(rate_per_s: float = 0.0, utilisation: float = 0.8, workers: float = 0) -> Rule[StaticMemory]:
    """The smallest pool that carries the peak `rate_per_s` at `utilisation`; or just `workers`."""
    return _fixed("static-max", rate_per_s / utilisation, workers)


def static_mean(rate_per_s: float = 0.0, utilisation: float = 1.0, workers: float = 0) -> Rule[StaticMemory]:
    """A pool for the mean `rate_per_s`: a guess at Kale's production baseline; or just `workers`."""
    return _fixed("static-mean", rate_per_s / utilisation, workers)


def _fixed(name: str, demand_per_s: float, workers: float) -> Rule[StaticMemory]:
    def size(seen: Situation, memory: StaticMemory) -> tuple[Sizing, StaticMemory]:
        chosen = memory.workers
        if chosen is None:
            # Sized once, from what is known then: a fixed pool does not follow what is learned later.
            by_demand = seen.capacity.workers_for(demand_per_s, workers_max=seen.limits.workers_max)
            chosen = int(workers) or by_demand or seen.requested
        return Sizing(chosen, Reason.FIXED, {"demand_per_s": demand_per_s}), StaticMemory(chosen)

    return Rule(name, StaticMemory, size, period_s=PERIOD_S)
