"""What a fleet has, what a job told it, and what it was granted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from estimator.fleet import NOTHING, Budget, Configuration, JobId, ShareRules, Tenants
from estimator.fleet.lending import LendingTerms
from estimator.fleet.sharing import NO_TENANTS
from estimator.fleet.wish import DEFAULT_RULES
from services.control.fleet_cells import Sitting
from services.control.fleet_wish import Word
from services.control.types import WorkerPhase

LENDING = LendingTerms()


@dataclass(frozen=True, slots=True)
class FleetTerms:
    """What a fleet has, and how it is shared."""

    budget: Budget
    tenants: Tenants = NO_TENANTS
    rules: ShareRules = DEFAULT_RULES
    lending: LendingTerms = LENDING


@dataclass(frozen=True, slots=True)
class Grant:
    """What a job may have."""

    workers: int
    """At the most."""
    gpu_type: str = ""
    """Where to: another type than it is on; empty where it is."""
    leave: tuple[str, ...] = ()
    """Workers that have to go first: they slow down a guaranteed one."""
    order: tuple[str, ...] = ()
    """Who goes in which order where the pool shrinks, so that the rest is well placed."""
    nodes: tuple[str, ...] = ()
    """Where its workers should be when the pool grows, where the pool can be told."""
    standbys_lent: int = 0
    """Standbys that it does without for now: the batch pool has their GPUs."""


@dataclass(frozen=True, slots=True)
class Told:
    """The last word of one job, and what came of it."""

    word: Word
    held: int
    """Workers whose GPUs it has, or has been given."""
    kind: str
    """Their type."""
    loan: int = 0
    """Workers of its guarantee that others may have for now."""
    awaited: Configuration = NOTHING
    """What others give up so that it can move there."""

    @property
    def id(self) -> JobId:
        """Whose word it is."""
        return self.word.standing.id

    def gpus_kept(self) -> dict[str, float]:
        """By type, GPUs that nobody else may take: what it has, still has, is guaranteed and not lent, or
        is about to move to."""
        workers = defaultdict(int, {self.kind: self.held})
        for kind, count in {self.word.kind: self.word.decision.requested, **self.word.leaving}.items():
            workers[kind] = max(workers[kind], count)
        if self.awaited:
            workers[self.awaited.gpu_type] = max(workers[self.awaited.gpu_type], self.awaited.workers)
        home, standing = self.word.home, self.word.standing
        workers[home] = max(workers[home], standing.guaranteed - self.loan)
        return {kind: standing.gpus(count) for kind, count in workers.items()}

    def gpus_needed(self, gpu_type: str) -> float:
        """GPUs of a type that it has, wishes for or is to find free."""
        kept = self.gpus_kept().get(gpu_type, 0.0)
        return max(kept, self.gpus_wished()) if gpu_type == self.word.kind else kept

    def leaving(self) -> dict[str, int]:
        """By type, workers that it will give up: what it has of others than it was given, or waits for."""
        word = self.word
        if self.kind != word.kind or self.awaited:
            return {word.kind: word.decision.requested}
        return word.leaving

    def sitting(self) -> Sitting:
        """As the cells of its guarantee see it."""
        word, standing = self.word, self.word.standing
        workers = tuple(one for one in word.seen.pool.workers if one.phase is not WorkerPhase.DRAINING)
        kept = max(0, standing.guaranteed - self.loan)
        return Sitting(standing.id, standing.weight, kept, word.home, standing.gpus_per_worker, workers)

    def gpus_wished(self) -> float:
        """GPUs of the type that it is on, which it would take if it were alone."""
        word = self.word
        kept = word.kept if word.home == word.kind else 0
        return word.standing.gpus(max(word.planned, kept))
