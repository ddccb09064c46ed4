"""What the jobs of one controller share: the GPUs of the fleet. Without a fleet nothing of this exists."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import floor

from estimator.fleet import (
    NOTHING,
    Budget,
    Configuration,
    FleetPlan,
    InvalidFleet,
    JobId,
    ShareRules,
    Standing,
    Tenants,
    Wish,
    share,
)
from estimator.fleet.sharing import NO_TENANTS
from estimator.fleet.wish import DEFAULT_RULES
from services.control.types import Decision, Reason


@dataclass(frozen=True, slots=True)
class FleetTerms:
    """What a fleet has, and how it is shared."""

    budget: Budget
    tenants: Tenants = NO_TENANTS
    rules: ShareRules = DEFAULT_RULES


@dataclass(frozen=True, slots=True)
class Told:
    """The last word of one job."""

    wish: Wish
    held: int
    """Workers whose GPUs it has, or has been given."""


class FleetShare:
    """Grants each job what it asks for while there is enough, and its share when there is not.

    Jobs speak one after the other. Each is held to its share, and to what the others have not: a job
    that may grow waits until one that has to shrink has done so. In the first interval nobody grows:
    until everybody has spoken, what looks free may be in use.
    """

    def __init__(self, terms: FleetTerms, *, interval_s: float) -> None:
        self.terms = terms
        """Replaced when the fleet file changes; the next word of each job is judged by the new ones."""
        self.trouble = ""
        """Why nobody may grow, in words; empty when all is well."""
        self._interval_s = interval_s
        self._told: dict[str, Told] = {}
        self._since_s: float | None = None
        self._plan: FleetPlan | None = None
        self._plan_of: tuple[int, FleetTerms] | None = None

    def forget(self, job: str) -> None:
        """This controller does not decide for the job any more."""
        self._told.pop(job, None)
        if not self._told:
            self._since_s = None

    def keep(self, jobs: Collection[str]) -> None:
        """Forget all jobs but these."""
        for job in [job for job in self._told if job not in jobs]:
            self.forget(job)

    def grant(self, decision: Decision, standing: Standing) -> int | None:
        """The most workers that the job may have now; None where the fleet does not hold it back.

        A job on GPUs that are not the fleet's is not the fleet's business.
        """
        kind = self._kind(decision, standing)
        if Reason.RECOMMEND_ONLY in decision.notes or kind is None:
            self.forget(decision.job)
            return None
        if self._since_s is None:
            self._since_s = decision.at_s
        self._told[decision.job] = Told(_wish(decision, standing, kind), decision.requested)
        most = self._most(decision, standing, kind)
        granted = min(decision.planned, max(most, 0))
        held = max(decision.requested, granted)
        self._told[decision.job] = replace(self._told[decision.job], held=held)
        return None if granted >= decision.planned else granted

    def plan(self) -> FleetPlan:
        """Who would get what by the latest wishes. Raises InvalidFleet."""
        return share(self.terms.budget, self.wishes(), self.terms.tenants, rules=self.terms.rules)

    def held(self) -> dict[JobId, Configuration]:
        """What each job has, or has been given."""
        return {
            told.wish.id: Configuration(next(iter(told.wish.workers)), told.held)
            for told in self._told.values()
        }

    def kind_of(self, job: str) -> str | None:
        """The type that a job has its GPUs of; None for one that has not spoken."""
        told = self._told.get(job)
        return None if told is None else next(iter(told.wish.workers))

    def wishes(self) -> list[Wish]:
        """The latest of every job."""
        return [self._told[job].wish for job in sorted(self._told)]

    def _kind(self, decision: Decision, standing: Standing) -> str | None:
        """The type that the job's workers have, else may have, else the only one there is."""
        declared = self.terms.budget.declared
        seen = decision.state.throughput.gpu_type
        if seen in declared:
            return seen
        allowed = [kind for kind in declared if standing.may_use(kind)]
        named = [kind for kind in standing.gpu_types if kind in declared]
        if named:
            return named[0]
        return allowed[0] if len(allowed) == 1 and not seen else None

    def _most(self, decision: Decision, standing: Standing, kind: str) -> int:
        there = self.terms.budget.gpus[kind]
        mine = [told for told in self._told.values() if kind in told.wish.workers]
        others = sum(told.wish.job.gpus(told.held) for told in mine if told.wish.id != standing.id)
        free = max(decision.requested, floor((there - others) / standing.gpus_per_worker))
        if self._since_s is None or decision.at_s < self._since_s + self._interval_s:
            return min(free, decision.requested)
        wished = sum(told.wish.job.gpus(told.wish.workers[kind]) for told in mine)
        if wished <= there:
            self.trouble = ""
            return free
        return min(free, self._shared(decision, standing))

    def _shared(self, decision: Decision, standing: Standing) -> int:
        """The job's share, worked out once an interval: not for every job anew."""
        epoch = floor(decision.at_s / self._interval_s), self.terms
        try:
            if self._plan is None or self._plan_of != epoch or not _speaks_of(self._plan, standing.id):
                self._plan, self._plan_of = self.plan(), epoch
            self.trouble = ""
        except InvalidFleet as error:
            self._plan, self.trouble = None, str(error)
            return decision.requested
        return self._plan.of(standing.id).given.workers


def _speaks_of(plan: FleetPlan, job: JobId) -> bool:
    return any(allotment.job == job for allotment in plan.allotments)


def _wish(decision: Decision, standing: Standing, kind: str) -> Wish:
    """What a decision comes to as a wish: its size, and what fewer workers would train of it.

    The demand is what the planned workers would train: that is what the rule sized the pool for.
    """
    model = decision.state.throughput.model
    reach = model.reach() or decision.planned
    curve = tuple(model.low(min(workers, reach)) for workers in range(decision.planned + 1))
    current = Configuration(kind, decision.requested) if decision.requested else NOTHING
    return Wish(
        standing,
        {kind: decision.planned},
        {kind: curve},
        max(curve[: decision.planned - decision.standbys + 1]),
        current=current,
        pinned=decision.reason is Reason.PAUSED,
    )
