"""Jobs that change GPU types: into what is free, or what others give up for them; back, and home."""

from __future__ import annotations

from collections.abc import Mapping

from estimator.fleet import Budget, Configuration, JobId
from services.control.fleet_book import FleetBook
from services.control.fleet_moves import Moves
from services.control.fleet_passages import Passages
from services.control.fleet_told import Grant
from services.control.fleet_wish import Word, wish_of
from services.control.types import Decision

WAIT_INTERVALS = 2
"""A job that is to move waits so long for room: others may have to shrink first."""
MOVE_PATIENCE, MOVE_PATIENCE_LEAST_S = 3.0, 300.0
"""A move in which nobody came for so many lead times is taken back."""
BACK_HOME = 0.9
"""Without contention a job goes home where that leaves a tenth of the type free and is a tenth cheaper."""


class Relocation:
    """Of the jobs of one controller."""

    def __init__(self, book: FleetBook, *, interval_s: float) -> None:
        self._book = book
        self._moves = Moves(wait_s=WAIT_INTERVALS * interval_s)
        # Who gives way does so at its next word, and the one after it shows that it did.
        self._passages = Passages(book, wait_s=2 * WAIT_INTERVALS * interval_s)

    def may_try(self, word: Word, *, now_s: float) -> tuple[str, ...]:
        """The types that a job can be moved to, without those that did not work lately."""
        return self._moves.may_try(word.decision.job, word.kinds, now_s=now_s, always=(word.kind, word.home))

    def kept_for(self, job: str) -> Configuration:
        """GPUs that others give up so that the job can move there."""
        return self._passages.kept_for(job)

    def most(self, word: Word) -> int:
        """What a job that is to move may have where it is, while it waits: less where it gives way."""
        most = self._passages.most(word.standing.id)
        requested = word.decision.requested
        return requested if most is None else min(most, requested)

    def moved(self, word: Word, given: Configuration, shares: Mapping[JobId, Configuration]) -> Grant | None:
        """The other type, where it is free, or a part of it that others gave up; None while it is neither."""
        decision, kind = word.decision, given.gpu_type
        job, now_s = decision.job, decision.at_s
        passage = self._passages.of(job)
        if passage is not None and passage.to.gpu_type != kind:
            self._passages.close(job)
            passage = None
        room = self._book.room(word, kind)
        if room >= (given.workers if passage is None else min(passage.to.workers, given.workers)):
            self._passages.close(job)
            return Grant(min(room, given.workers), kind)
        if passage is not None:
            if now_s >= passage.until_s:
                self.stay(decision, kind)
        elif self._passages.most(word.standing.id) is None and not self._will_be_left(word, given, room):
            waited = self._moves.waited(job, kind, now_s=now_s)
            if waited and not self._passages.opened(job, shares, now_s=now_s):
                self.stay(decision, kind)
        return None

    def _will_be_left(self, word: Word, given: Configuration, room: int) -> bool:
        """Whether others are on their way out, and leave enough: that is worth waiting for."""
        free = word.standing.gpus(room) + self._book.being_left(given.gpu_type)
        return free >= word.standing.gpus(given.workers)

    def stays(self, job: str, *, complete: bool) -> None:
        """The job is to be where it is: it waits for nothing. `complete`: it has all that it is to have."""
        self._passages.close(job)
        self._moves.settled(job)
        if complete:
            self._passages.made_whole(job)

    def reserved(self, job: str, *, now_s: float) -> tuple[int, int]:
        """Resizes that swaps still need: of a job itself, and of all others."""
        return self._passages.reserved(job, now_s=now_s)

    def stay(self, decision: Decision, gpu_type: str) -> None:
        """A move is not made, and not tried again for a while."""
        self._passages.close(decision.job)
        self._moves.shun(decision.job, gpu_type, now_s=decision.at_s)

    def taken_back(self, word: Word) -> Grant | None:
        """Back to where it came from, for a job to which nobody came where it moved."""
        decision, leaving = word.decision, word.leaving
        moving_s = self._moves.moved_for_s(decision.job, moving=bool(leaving), now_s=decision.at_s)
        patience_s = max(MOVE_PATIENCE * decision.state.pool.lead_time_s, MOVE_PATIENCE_LEAST_S)
        if moving_s < patience_s:
            return None
        self.stay(decision, word.kind)
        before = max(leaving, key=lambda kind: leaving[kind])
        return Grant(leaving[before], before)

    def homewards(self, word: Word, budget: Budget) -> Grant | None:
        """Without contention, home: where a job was moved away from it, and it is cheaper there."""
        if word.home == word.kind or word.leaving:
            return None
        wish, gpus = wish_of(word), word.standing.gpus
        workers = wish.workers[word.home]
        cheaper = workers * budget.price(word.home) < BACK_HOME * (
            wish.workers[word.kind] * budget.price(word.kind)
        )
        wished = self._book.wished(word.home) + gpus(workers)
        fits = wished <= BACK_HOME * self._book.there.get(word.home, 0)
        if workers and cheaper and fits and self._book.room(word, word.home) >= workers:
            return Grant(workers, word.home)
        return None

    def forget(self, job: str) -> None:
        """This controller does not decide for the job any more."""
        self._passages.close(job)
        self._passages.made_whole(job)
        self._moves.forget(job)
