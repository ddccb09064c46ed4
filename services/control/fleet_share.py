"""What the jobs of one controller share: the GPUs of the fleet. Without a fleet nothing of this exists."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import floor

from estimator.fleet import NOTHING, Configuration, FleetPlan, InvalidFleet, JobId, Standing, Wish, share
from estimator.situation import Slo
from services.control.fleet_book import FleetBook
from services.control.fleet_leaving import Leaving
from services.control.fleet_lending import Lender
from services.control.fleet_packing import NodeSeats, Packing
from services.control.fleet_relocation import Relocation
from services.control.fleet_seats import Seats
from services.control.fleet_told import FleetTerms, Grant, Told
from services.control.fleet_wish import UNLIMITED, Word, kinds_for, wish_of
from services.control.safety import Allowance
from services.control.types import Decision, Observation, PoolState, Reason

__all__ = ["FleetShare", "FleetTerms", "Grant", "Told"]


class FleetShare:
    """Grants each job what it asks for while there is enough, and its share when there is not.

    Jobs speak one after the other. Each is held to its share, and to what the others have not: a job
    that may grow waits until one that has to shrink has done so. In the first interval nobody grows:
    until everybody has spoken, what looks free may be in use.

    A job with a pool for each GPU type may be given another type: it grows there first, into GPUs that are
    free or that others give up for it, and leaves what it has when those train.

    What is guaranteed to a job and idle is lent to the others, as far as its forecast says that it can be
    back in time; the rest is kept free for it. Its standbys are lent to the batch pool likewise. A job
    without a forecast lends nothing.
    """

    def __init__(self, terms: FleetTerms, *, interval_s: float) -> None:
        self.trouble = ""
        """Why nobody may grow, in words; empty when all is well."""
        self.unknown = ""
        """Why nobody knows what there is, in words: until that is known nobody grows."""
        self._interval_s = interval_s
        self._book = FleetBook(terms.budget.gpus)
        self._lender = Lender(self._book)
        self._relocation = Relocation(self._book, interval_s=interval_s)
        self._packing = Packing(self._book, interval_s=interval_s)
        self._leaving = Leaving(self._book, self._packing)
        self._seats = Seats(self._book, interval_s=interval_s)
        self._since_s: float | None = None
        self._plan: FleetPlan | None = None
        self._shares: dict[JobId, Configuration] = {}
        self._epoch = 0
        self.terms = terms

    @property
    def terms(self) -> FleetTerms:
        """What is shared, and how. Replaced when the fleet file changes: the next words are judged by it."""
        return self._terms

    @terms.setter
    def terms(self, terms: FleetTerms) -> None:
        self._terms = terms
        self._book.there, self._declared = terms.budget.gpus, terms.budget.declared
        self._plan = None

    def forget(self, job: str) -> None:
        """This controller does not decide for the job any more."""
        self._book.tell(job, None)
        self._relocation.forget(job)
        self._leaving.forget(job)
        if not self._book:
            self._since_s = None

    def keep(self, jobs: Collection[str]) -> None:
        """Forget all jobs but these."""
        for job in self._book.names():
            if job not in jobs:
                self.forget(job)

    def reserved(self, job: str, *, now_s: float) -> tuple[int, int]:
        """Resizes that swaps of GPU types still need: of a job itself, and of all others."""
        return self._relocation.reserved(job, now_s=now_s)

    def grant(
        self,
        decision: Decision,
        standing: Standing,
        seen: Observation,
        slo: Slo,
        *,
        allowance: Allowance = UNLIMITED,
    ) -> Grant | None:
        """What the job may have now; None where the fleet does not hold it back.

        A job on GPUs that are not the fleet's is not the fleet's business. `allowance` is what its safety
        limits leave: a swap that they would stop half-way is not begun.
        """
        if self.unknown and Reason.RECOMMEND_ONLY not in decision.notes:
            return Grant(decision.requested)
        kind = self._kind(decision, standing)
        if Reason.RECOMMEND_ONLY in decision.notes or kind is None:
            self.forget(decision.job)
            return None
        if self._since_s is None:
            self._since_s = decision.at_s
        kinds = tuple(k for k in kinds_for(decision, standing, seen, kind) if k in self._declared)
        kinds = kinds or (kind,)
        word = Word(decision, standing, seen, slo.fresh_within_s, kind, kinds, allowance=allowance)
        tried = self._relocation.may_try(word, now_s=decision.at_s)
        word = replace(word, lent=self._lender.standbys(word, self.terms.lending))
        loan = self._lender.guaranteed(word, self.terms.lending)
        word = replace(word, kinds=tried, kept=standing.guaranteed - loan)
        awaited = self._relocation.kept_for(decision.job)
        self._book.tell(decision.job, Told(word, decision.requested, kind, loan, awaited))
        granted = self._leaving.beside(word, self._granted(word), self.terms.budget)
        self._hold(decision, granted)
        told = self._leaving.in_order(word, granted, self.terms.budget)
        return self._seats.told(word, granted, told, self.terms.budget)

    def lend(self, gpu_type: str, gpus: float, *, most: float = 0.0) -> None:
        """So many GPUs are with the batch pool: nobody grows into them until it has given them back.

        It has use for `most` of them, the jobs' standbys included; 0 leaves the standbys where they are.
        """
        self._book.batch[gpu_type] = gpus
        self._book.batch_most[gpu_type] = most

    def beside(self, pool: PoolState, *, gpus_per_worker: float) -> Grant | None:
        """What a batch pool may have, and who of it has to go, where it slows down guaranteed workers on GPUs
        that they share; None where it does not."""
        now_s = self._book.latest_s
        if now_s is None:
            return None
        return self._leaving.of_batch(pool, gpus_per_worker=gpus_per_worker, now_s=now_s)

    def batch(self) -> dict[str, float]:
        """GPUs of each type that are with the batch pool."""
        return dict(self._book.batch)

    def idle(self, gpu_type: str) -> float:
        """GPUs of a type that no job has, wishes for or is to find free: what a batch pool may have.

        None in the first interval, and while nobody knows what there is: what looks idle may be in use.
        """
        latest_s = self._book.latest_s
        unheard = self._since_s is None or latest_s is None or latest_s < self._since_s + self._interval_s
        return 0.0 if self.unknown or unheard else self._book.idle(gpu_type)

    def stay(self, decision: Decision, grant: Grant) -> None:
        """The move that was granted is not made: the job keeps what it has."""
        self._relocation.stay(decision, grant.gpu_type)
        self._hold(decision, Grant(decision.requested))

    def asked(self) -> dict[JobId, int]:
        """Workers that each job asked for."""
        return {told.id: told.word.decision.planned for told in self._book}

    def loans(self) -> dict[JobId, int]:
        """Workers of each job's guarantee that others may have now."""
        return {told.id: told.loan for told in self._book if told.word.standing.guaranteed}

    def standbys_lent(self) -> dict[JobId, int]:
        """Standbys of each job in whose place the batch pool may have GPUs now."""
        return {told.id: told.word.lent for told in self._book if told.word.lent}

    def plan(self) -> FleetPlan:
        """Who is to get what: as it was last worked out for the jobs there are, else by the latest wishes.

        Whoever looks at the fleet does not make the programme run once more. Raises InvalidFleet.
        """
        known = self._plan is not None and {one.job for one in self._plan.allotments} == self._book.ids()
        if self._plan is not None and known and self._book.contended():
            return self._plan
        return share(self.terms.budget, self.wishes(), self.terms.tenants, rules=self.terms.rules)

    def placed_plan(self) -> FleetPlan:
        """The same with its places, where the pools tell where workers are. Raises InvalidFleet."""
        plan = self.plan()
        return self._packing.seated(plan, self.wishes(), self.terms.budget) if plan.contended else plan

    def nodes(self) -> tuple[NodeSeats, ...]:
        """The machines there are and should be, and whose workers are on them."""
        return self._packing.nodes(self.terms.budget)

    def held(self) -> dict[JobId, Configuration]:
        """What each job has, or has been given."""
        return {told.id: Configuration(told.kind, told.held) for told in self._book}

    def kind_of(self, job: str) -> str | None:
        """The type that a job has its GPUs of; None for one that has not spoken."""
        told = self._book.of(job)
        return None if told is None else told.kind

    def wishes(self) -> list[Wish]:
        """The latest of every job."""
        return [wish_of(self._book.said(job).word) for job in self._book.names()]

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

    def _granted(self, word: Word) -> Grant:
        decision = word.decision
        free = max(decision.requested, self._book.room(word, word.kind))
        if self._since_s is None or decision.at_s < self._since_s + self._interval_s:
            return Grant(min(free, decision.requested))
        back = self._relocation.taken_back(word)
        if back is not None:
            return back
        if not self._book.contended():
            self.trouble, self._plan = "", None
            self._relocation.stays(decision.job, complete=word.planned <= decision.requested)
            return self._relocation.homewards(word, self.terms.budget) or Grant(free)
        given = self._shared(word)
        if given is None:
            return Grant(min(free, decision.requested))
        if not given or given.gpu_type == word.kind:
            self._relocation.stays(decision.job, complete=given.workers <= decision.requested)
            return Grant(min(free, given.workers))
        moved = self._relocation.moved(word, given, self._shares)
        return moved or Grant(min(free, self._relocation.most(word)))

    def _shared(self, word: Word) -> Configuration | None:
        """The job's share, worked out once an interval: not for every job anew. None where it cannot be."""
        epoch, job = floor(word.decision.at_s / self._interval_s), word.standing.id
        try:
            if self._plan is None or self._epoch != epoch or job not in self._shares:
                self._plan, self._epoch = None, epoch
                self._plan = self.plan()
                self._shares = {one.job: one.given for one in self._plan.allotments}
            self.trouble = ""
        except InvalidFleet as error:
            self.trouble = str(error)
            return None
        return self._shares[job] or NOTHING

    def _hold(self, decision: Decision, granted: Grant) -> None:
        """What the job has from now on, as long as it is not told otherwise."""
        told = replace(self._book.said(decision.job), awaited=self._relocation.kept_for(decision.job))
        if granted.gpu_type:
            held, kind = granted.workers, granted.gpu_type
        else:
            held, kind = max(decision.requested, min(told.word.planned, granted.workers)), told.word.kind
        self._book.tell(decision.job, replace(told, held=held, kind=kind))
