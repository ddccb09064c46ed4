"""What the jobs of one controller share: the GPUs of the fleet. Without a fleet nothing of this exists."""

from __future__ import annotations

from collections import defaultdict
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
from estimator.fleet.lending import LendingTerms, Owner, loan_of
from estimator.fleet.sharing import NO_TENANTS
from estimator.fleet.wish import DEFAULT_RULES
from forecasting.forecast import Forecast
from services.control.types import Decision, Reason

LENDING = LendingTerms()


@dataclass(frozen=True, slots=True)
class FleetTerms:
    """What a fleet has, and how it is shared."""

    budget: Budget
    tenants: Tenants = NO_TENANTS
    rules: ShareRules = DEFAULT_RULES
    lending: LendingTerms = LENDING


@dataclass(frozen=True, slots=True)
class Told:
    """The last word of one job."""

    wish: Wish
    held: int
    """Workers whose GPUs it has, or has been given."""
    planned: int = 0
    """Workers that it asked for itself; the wish may hold more, kept of its guarantee."""
    loan: int = 0
    """Workers of its guarantee that others may have for now."""

    @property
    def kept(self) -> int:
        """Workers whose GPUs nobody else may take: those it has, and what of its guarantee is not lent."""
        return max(self.held, self.wish.job.guaranteed - self.loan)

    @property
    def kind(self) -> str:
        """The type of its GPUs."""
        return next(iter(self.wish.workers))


class FleetShare:
    """Grants each job what it asks for while there is enough, and its share when there is not.

    Jobs speak one after the other. Each is held to its share, and to what the others have not: a job
    that may grow waits until one that has to shrink has done so. In the first interval nobody grows:
    until everybody has spoken, what looks free may be in use.

    What is guaranteed to a job and idle is lent to the others, as far as its forecast says that it can be
    back in time; the rest is kept free for it. A job without a forecast lends nothing.
    """

    def __init__(self, terms: FleetTerms, *, interval_s: float) -> None:
        self.trouble = ""
        """Why nobody may grow, in words; empty when all is well."""
        self._interval_s = interval_s
        self._told: dict[str, Told] = {}
        # Sums over what was told, kept as it is told: a thousand jobs must not add a million numbers a tick.
        self._kept: dict[str, float] = defaultdict(float)
        self._wished: dict[str, float] = defaultdict(float)
        self._since_s: float | None = None
        self._shares: dict[JobId, int] | None = None
        self._epoch = 0
        self.terms = terms

    @property
    def terms(self) -> FleetTerms:
        """What is shared, and how. Replaced when the fleet file changes: the next words are judged by it."""
        return self._terms

    @terms.setter
    def terms(self, terms: FleetTerms) -> None:
        self._terms = terms
        self._there, self._declared = terms.budget.gpus, terms.budget.declared
        self._shares = None

    def forget(self, job: str) -> None:
        """This controller does not decide for the job any more."""
        self._tell(job, None)
        if not self._told:
            self._since_s = None

    def keep(self, jobs: Collection[str]) -> None:
        """Forget all jobs but these."""
        for job in [job for job in self._told if job not in jobs]:
            self.forget(job)

    def grant(
        self, decision: Decision, standing: Standing, *, forecast: Forecast | None = None
    ) -> int | None:
        """The most workers that the job may have now; None where the fleet does not hold it back.

        A job on GPUs that are not the fleet's is not the fleet's business.
        """
        kind = self._kind(decision, standing)
        if Reason.RECOMMEND_ONLY in decision.notes or kind is None:
            self.forget(decision.job)
            return None
        if self._since_s is None:
            self._since_s = decision.at_s
        loan = self._loan(decision, standing, forecast)
        wish = _wish(decision, standing, kind, fewest=standing.guaranteed - loan)
        self._tell(decision.job, Told(wish, decision.requested, decision.planned, loan))
        most = self._most(decision, standing, kind)
        granted = min(decision.planned, max(most, 0))
        held = max(decision.requested, granted)
        self._tell(decision.job, replace(self._told[decision.job], held=held))
        return None if granted >= decision.planned else granted

    def asked(self) -> dict[JobId, int]:
        """Workers that each job asked for."""
        return {told.wish.id: told.planned for told in self._told.values()}

    def loans(self) -> dict[JobId, int]:
        """Workers of each job's guarantee that others may have now."""
        return {told.wish.id: told.loan for told in self._told.values() if told.wish.job.guaranteed}

    def plan(self) -> FleetPlan:
        """Who would get what by the latest wishes. Raises InvalidFleet."""
        return share(self.terms.budget, self.wishes(), self.terms.tenants, rules=self.terms.rules)

    def held(self) -> dict[JobId, Configuration]:
        """What each job has, or has been given."""
        return {told.wish.id: Configuration(told.kind, told.held) for told in self._told.values()}

    def kind_of(self, job: str) -> str | None:
        """The type that a job has its GPUs of; None for one that has not spoken."""
        told = self._told.get(job)
        return None if told is None else told.kind

    def wishes(self) -> list[Wish]:
        """The latest of every job."""
        return [self._told[job].wish for job in sorted(self._told)]

    def _kind(self, decision: Decision, standing: Standing) -> str | None:
        """The type that the job's workers have, else may have, else the only one there is."""
        declared = self._declared
        seen = decision.state.throughput.gpu_type
        if seen in declared:
            return seen
        allowed = [kind for kind in declared if standing.may_use(kind)]
        named = [kind for kind in standing.gpu_types if kind in declared]
        if named:
            return named[0]
        return allowed[0] if len(allowed) == 1 and not seen else None

    def _loan(self, decision: Decision, standing: Standing, forecast: Forecast | None) -> int:
        """What of the guarantee may be lent, when the lead time and the forecast are as they are."""
        if not standing.guaranteed:
            return 0
        before = self._told.get(decision.job)
        owner = Owner(
            standing.id,
            standing.guaranteed,
            _curve(decision, standing.guaranteed),
            forecast,
            decision.state.pool.lead_time_s,
            wished=decision.planned,
            lent=0 if before is None else before.loan,
        )
        return loan_of(owner, self.terms.lending, now_s=decision.at_s).workers

    def _most(self, decision: Decision, standing: Standing, kind: str) -> int:
        there = self._there[kind]
        others = self._kept[kind] - standing.gpus(self._told[decision.job].kept)
        free = max(decision.requested, floor((there - others) / standing.gpus_per_worker))
        if self._since_s is None or decision.at_s < self._since_s + self._interval_s:
            return min(free, decision.requested)
        if self._wished[kind] <= there:
            self.trouble = ""
            return free
        return min(free, self._shared(decision, standing))

    def _shared(self, decision: Decision, standing: Standing) -> int:
        """The job's share, worked out once an interval: not for every job anew."""
        epoch = floor(decision.at_s / self._interval_s)
        try:
            if self._shares is None or self._epoch != epoch or standing.id not in self._shares:
                self._shares = {one.job: one.given.workers for one in self.plan().allotments}
                self._epoch = epoch
            self.trouble = ""
        except InvalidFleet as error:
            self._shares, self.trouble = None, str(error)
            return decision.requested
        return self._shares[standing.id]

    def _tell(self, job: str, told: Told | None) -> None:
        """Take in a job's word, or its silence, and keep the sums."""
        for one, sign in ((self._told.pop(job, None), -1), (told, 1)):
            if one is not None:
                self._kept[one.kind] += sign * one.wish.job.gpus(one.kept)
                wished = one.wish.job.gpus(one.wish.workers[one.kind])
                self._wished[one.kind] += sign * wished
        if told is not None:
            self._told[job] = told


def _curve(decision: Decision, workers: int) -> tuple[float, ...]:
    """C_low up to so many workers; flat beyond what may be extrapolated to."""
    model = decision.state.throughput.model
    reach = model.reach() or workers
    return tuple(model.low(min(count, reach)) for count in range(workers + 1))


def _wish(decision: Decision, standing: Standing, kind: str, *, fewest: int) -> Wish:
    """What a decision comes to as a wish: its size, and what fewer workers would train of it.

    The demand is what the planned workers would train: that is what the rule sized the pool for. What is
    kept of the guarantee, `fewest`, is wished for too, so that nobody else is given it.
    """
    workers = max(decision.planned, fewest)
    curve = _curve(decision, workers)
    current = Configuration(kind, decision.requested) if decision.requested else NOTHING
    return Wish(
        replace(standing, gpu_types=(kind,)),  # its guarantee is held where it runs
        {kind: workers},
        {kind: curve},
        max(curve[: decision.planned - decision.standbys + 1]),
        current=current,
        pinned=decision.reason is Reason.PAUSED,
    )
