"""What of a job's GPUs others may have for now: the idle part of its guarantee, and its standbys."""

from __future__ import annotations

from math import ceil

from estimator.fleet.lending import LendingTerms, Owner, loan_of
from services.control.explained import heeded
from services.control.fleet_book import FleetBook
from services.control.fleet_wish import Word, curve_of
from services.control.types import Reason

_BY_HAND = (Reason.PAUSED, Reason.OVERRIDE)


class Lender:
    """By each owner's forecast, so that what is lent is back before it is needed; without one, nothing."""

    def __init__(self, book: FleetBook) -> None:
        self._book = book

    def standbys(self, word: Word, terms: LendingTerms) -> int:
        """Standbys that the batch pool may have in their place.

        As many as the forecast lets go until they could be back and loaded, and as the pool has use for
        beside what is idle anyhow. Those that are lent stay so while they may: forecasts breathe.
        """
        decision = word.decision
        if not decision.standbys or decision.reason in _BY_HAND:
            return 0
        lacks = self._book.batch_lacks(word)
        if lacks <= 0:
            return 0
        lent = self._lent(word)
        owner = Owner(
            word.standing.id,
            decision.planned,
            tuple(curve_of(word, word.kind, decision.planned).tolist()),
            heeded(word.seen.forecast),
            decision.state.pool.lead_time_s,
            wished=decision.planned - decision.standbys,
            lent=lent,
        )
        loan = loan_of(owner, terms, now_s=decision.at_s).workers
        return min(loan, max(lent, ceil(lacks / word.standing.gpus_per_worker)))

    def guaranteed(self, word: Word, terms: LendingTerms) -> int:
        """What of the guarantee may be lent, when the lead time and the forecast are as they are.

        Away from home all of it may, where what the job has is worth as much.
        """
        standing, decision, home = word.standing, word.decision, word.home
        if not standing.guaranteed:
            return 0
        away = word.kind != home
        curve = curve_of(word, home, standing.guaranteed)
        if away and curve_of(word, word.kind, decision.requested)[-1] >= curve[-1]:
            return standing.guaranteed
        before = self._book.of(decision.job)
        owner = Owner(
            standing.id,
            standing.guaranteed,
            tuple(curve.tolist()),
            heeded(word.seen.forecast),
            decision.state.pool.lead_time_s,
            wished=0 if away else word.planned,
            lent=0 if before is None else before.loan,
        )
        return loan_of(owner, terms, now_s=decision.at_s).workers

    def _lent(self, word: Word) -> int:
        """Standbys that are out already."""
        before = self._book.of(word.decision.job)
        return 0 if before is None or before.word.kind != word.kind else before.word.lent
