"""Which workers leave because of where they are: they disturb a guaranteed one, or are in its way."""

from __future__ import annotations

from dataclasses import replace

from estimator.fleet import Budget, Standing
from services.control.fleet_book import FleetBook
from services.control.fleet_cells import Scattered, Sitting
from services.control.fleet_packing import Packing
from services.control.fleet_told import Grant
from services.control.fleet_wish import Word
from services.control.neighbours import Neighbours
from services.control.types import PoolState, WorkerPhase

_BATCH = "\0batch"
"""The batch pool beside the jobs; no job has that name."""


class Leaving:
    """Of the jobs of one controller, and of its batch pool."""

    def __init__(self, book: FleetBook, packing: Packing) -> None:
        self._book = book
        self._packing = packing
        self._neighbours = Neighbours()
        self._scattered = Scattered()

    def forget(self, job: str) -> None:
        """This controller does not decide for the job any more."""
        self._neighbours.forget(job)

    def in_order(self, word: Word, granted: Grant, budget: Budget) -> Grant | None:
        """With who goes first, where the pool shrinks; None where nothing is left to say."""
        if granted.gpu_type:
            return granted
        shrinks = min(granted.workers, word.planned) < word.decision.requested
        order = self._packing.leaving(word, budget) if shrinks else ()
        if granted.workers >= word.planned and not order and not word.lent:
            return None
        return replace(granted, order=order, standbys_lent=word.lent)

    def beside(self, word: Word, granted: Grant, budget: Budget) -> Grant:
        """The same, less the workers that slow down a guaranteed one, or scatter what it needs whole."""
        job, now_s, seen = word.decision.job, word.decision.at_s, word.seen
        self._neighbours.tell(job, word.standing, seen.pool.workers, seen.reports)
        leave = self._neighbours.yielding(job, now_s=now_s) + self._in_the_way(word, budget)
        if granted.gpu_type or self._neighbours.may_grow(job, now_s=now_s):
            return granted
        # Whatever its others did, what it is guaranteed it has.
        most = max(word.decision.requested - len(leave), word.standing.guaranteed)
        return replace(granted, workers=min(granted.workers, most), leave=leave)

    def of_batch(self, pool: PoolState, *, gpus_per_worker: float, now_s: float) -> Grant | None:
        """What the batch pool may have beside guaranteed workers: all of its own came on top."""
        standing = Standing("batch", gpus_per_worker=0.5 if gpus_per_worker < 1 else 1.0)
        self._neighbours.tell(_BATCH, standing, pool.workers)
        leave = self._neighbours.yielding(_BATCH, now_s=now_s)
        if self._neighbours.may_grow(_BATCH, now_s=now_s):
            return None
        return Grant(max(0, pool.requested - len(leave)), leave=leave)

    def _in_the_way(self, word: Word, budget: Budget) -> tuple[str, ...]:
        """The job's workers that scatter a guarantee of several GPUs a worker; looked at once a minute."""
        job, now_s = word.decision.job, word.decision.at_s
        scattered = self._scattered.of(word.standing.id, self._sittings, budget, now_s=now_s)
        there = {worker.id for worker in word.seen.pool.workers if worker.phase is not WorkerPhase.DRAINING}
        leave = tuple(name for name in scattered if name in there)
        if leave:
            self._neighbours.keep_away(job, now_s=now_s)
        return leave

    def _sittings(self) -> list[Sitting]:
        return [told.sitting() for told in self._book]
