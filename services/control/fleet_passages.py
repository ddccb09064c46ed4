"""Ways through a full fleet: jobs that can only change GPU types with each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from estimator.fleet import NOTHING, Configuration, JobId
from estimator.fleet.moving import fewest
from estimator.fleet.swapping import GIVES_WAY, Side, WayIn, way_in
from services.control.fleet_book import FleetBook
from services.control.fleet_told import Told
from services.control.fleet_wish import curve_of, wish_of

HALVES = 2
"""Resizes that a swap takes of each job in it: it gives way or moves in, and comes to all of its share."""
RESERVED_S = 600.0
"""For so long the second is kept: a swap that took longer is taken back, or was none."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a type that is kept for one job, and those that go down for it first."""

    mover: str
    to: Configuration
    yields: Mapping[JobId, int]
    until_s: float
    """Who has not given way by then does not: a limit of the job's own holds it."""


class Passages:
    """Those that are open. Lost with the controller: a successor sees who is where, and opens them anew."""

    def __init__(self, book: FleetBook, *, wait_s: float) -> None:
        self._book = book
        self._wait_s = wait_s
        self._open: dict[str, Passage] = {}
        self._reserved_until_s: dict[str, float] = {}
        """By job that takes part in a swap, until when one of its resizes is kept for the second half."""

    def reserved(self, job: str, *, now_s: float) -> tuple[int, int]:
        """Resizes that swaps still need: of a job itself, and of all others."""
        lasting = {name for name, until_s in self._reserved_until_s.items() if now_s < until_s}
        return int(job in lasting), len(lasting - {job})

    def made_whole(self, job: str) -> None:
        """It has what it is to have: nothing is kept for it any more."""
        self._reserved_until_s.pop(job, None)

    def of(self, mover: str) -> Passage | None:
        """The one that a job waits for; None without one."""
        return self._open.get(mover)

    def kept_for(self, mover: str) -> Configuration:
        """What nobody else may take."""
        passage = self._open.get(mover)
        return NOTHING if passage is None else passage.to

    def most(self, job: JobId) -> int | None:
        """To what a job goes down for another; None where it does not."""
        return min((one.yields[job] for one in self._open.values() if job in one.yields), default=None)

    def close(self, mover: str) -> None:
        """It has begun to move, or does not any more."""
        self._open.pop(mover, None)

    def opened(self, job: str, shares: Mapping[JobId, Configuration], *, now_s: float) -> bool:
        """Open the best way in which the job moves or gives way; False where there is none.

        Each job is in one at a time, so that nobody gives way twice. Nobody takes part whose safety limits
        would let the first half through and not the second.
        """
        waiting = [told for told in self._book if self._waits(told, shares) and _may_end(told, shares)]
        wanted = self._book.said(job)
        if wanted not in waiting:
            return False
        left = min(told.word.allowance.fleet_resizes for told in waiting)
        found: list[tuple[float, str, WayIn, Configuration]] = []
        for mover in waiting:
            to = shares[mover.id]
            leavers = [told for told in waiting if told.word.kind == to.gpu_type]
            if not leavers or (mover is not wanted and wanted not in leavers):
                continue
            way = self._way(mover, to, leavers)
            if way is None or HALVES * (1 + len(way.yields)) > left:
                continue
            if mover is wanted or wanted.id in way.yields:
                found.append((-way.satisfaction, mover.word.decision.job, way, to))
        if not found:
            return False
        _, name, way, to = min(found, key=lambda one: one[:2])
        kept = Configuration(to.gpu_type, way.workers)
        self._open[name] = Passage(name, kept, way.yields, now_s + self._wait_s)
        yielding = [told.word.decision.job for told in waiting if told.id in way.yields]
        self._reserved_until_s |= dict.fromkeys([name, *yielding], now_s + RESERVED_S)
        # At once, not with its next word: what the others give up is nobody else's in between.
        self._book.tell(name, replace(self._book.said(name), awaited=kept))
        return True

    def _waits(self, told: Told, shares: Mapping[JobId, Configuration]) -> bool:
        """Whether it is to go to another type, has not begun, and is in no other passage."""
        to = shares.get(told.id, NOTHING)
        involved = told.word.decision.job in self._open or self.most(told.id) is not None
        return bool(to) and to.gpu_type != told.word.kind and not told.word.leaving and not involved

    def _way(self, mover: Told, to: Configuration, leavers: list[Told]) -> WayIn | None:
        entering = side_of(mover, to.gpu_type, to.workers)
        leaving = [side_of(told, to.gpu_type, told.word.decision.requested) for told in leavers]
        if entering is None:
            return None
        free = self._book.free(mover.word.decision.job, to.gpu_type)
        return way_in(entering, max(0.0, free), [side for side in leaving if side is not None])


def _may_end(told: Told, shares: Mapping[JobId, Configuration]) -> bool:
    """Whether its limits let it through to the end: the step back or in, and the one to all of its share."""
    allowance = told.word.allowance
    return allowance.resizes >= HALVES and allowance.step_up >= shares[told.id].workers


def side_of(told: Told, gpu_type: str, most: int) -> Side | None:
    """The job on that type; None where it could not train enough there meanwhile."""
    word = told.word
    demand = wish_of(word).demand_per_s
    now = curve_of(word, word.kind, word.decision.requested)[-1]
    promised = curve_of(word, word.home, word.standing.guaranteed)[-1]
    enough = min(demand, max(GIVES_WAY * now, promised))
    curve = curve_of(word, gpu_type, most)
    if curve[-1] < enough * (1 - 1e-9):
        return None
    satisfaction = np.minimum(1.0, curve / demand) if demand > 0 else np.ones_like(curve)
    return Side(
        word.standing.id,
        tuple(satisfaction.tolist()),
        max(fewest(curve, enough), min(word.standing.workers_min, most)),
        word.standing.gpus_per_worker,
    )
