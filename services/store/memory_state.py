"""The store in this process's memory: for the simulator, the demo's fast paths, and tests."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from itertools import islice

from services.control.actuation import Outcome, Settlement
from services.control.errors import Fenced
from services.control.types import Actuation, ControlState, Decision
from shuffler.assignment import Assignment

DECISIONS_KEPT = 1000
"""Decisions remembered for each job, in memory and in Redis alike."""


@dataclass(slots=True)
class _Job:
    decisions: deque[Decision]
    actuations: deque[Actuation]
    state: ControlState = field(default_factory=ControlState)
    assignment: Assignment = field(default_factory=Assignment)
    fence: int = 0


class MemoryState:
    """A StateStore that lives as long as its process. Commits copy nothing: everything is frozen."""

    def __init__(self, *, decisions_kept: int = DECISIONS_KEPT) -> None:
        self._decisions_kept = decisions_kept
        self._jobs: dict[str, _Job] = {}

    async def load(self, job: str) -> ControlState:
        """The state last committed; a fresh one for a job never seen."""
        known = self._jobs.get(job)
        return ControlState() if known is None else known.state

    async def commit(self, decision: Decision, *, fence: int) -> None:
        """Keep the decision and its state. One with the id of the newest replaces it: see RedisState."""
        known = self._jobs.get(decision.job)
        if known is None:
            known = self._jobs[decision.job] = _Job(
                deque(maxlen=self._decisions_kept), deque(maxlen=self._decisions_kept)
            )
        if fence < known.fence:
            raise Fenced(f"commit of decision {decision.id}", token=fence, newest=known.fence)
        if known.decisions and known.decisions[-1].id == decision.id:
            known.decisions.pop()
        known.decisions.append(decision)
        known.state, known.assignment, known.fence = decision.state, decision.state.assignment, fence
        _note(known.actuations, decision)

    async def settle(self, job: str, settlement: Settlement) -> None:
        """Mark the latest actuation, once."""
        known = self._jobs.get(job)
        if known is not None and known.actuations:
            latest = known.actuations[-1]
            if latest.decision_id == settlement.decision_id and latest.outcome is Outcome.ASKED:
                _close(known.actuations, settlement)

    async def decisions(self, job: str, *, limit: int = 100) -> tuple[Decision, ...]:
        """The latest decisions, newest first, each with a default state in the place of its own."""
        known = self._jobs.get(job)
        if known is None:
            return ()
        latest = islice(reversed(known.decisions), max(limit, 0))
        return tuple(replace(decision, state=ControlState()) for decision in latest)

    async def actuations(self, job: str, *, limit: int = 100) -> tuple[Actuation, ...]:
        """The trail of resizes, newest first."""
        known = self._jobs.get(job)
        return () if known is None else tuple(islice(reversed(known.actuations), max(limit, 0)))

    def assignment(self, job: str) -> Assignment:
        """What the workers are told; nothing for a job never seen."""
        known = self._jobs.get(job)
        return Assignment() if known is None else known.assignment


def _note(trail: deque[Actuation], decision: Decision) -> None:
    """A decision made again under the same id takes back what its first record asked for."""
    if trail and trail[-1].outcome is Outcome.ASKED and trail[-1].decision_id == decision.id:
        trail.pop()
    if decision.actuation is None:
        return
    if trail and trail[-1].outcome is Outcome.ASKED:
        _close(trail, Settlement(trail[-1].decision_id, decision.at_s, Outcome.SUPERSEDED))
    trail.append(decision.actuation)


def _close(trail: deque[Actuation], end: Settlement) -> None:
    """The latest ends so. Where the one before asked the same and ended likewise, it takes its place."""
    latest = settled(trail.pop(), end)
    before = trail[-1] if trail else None
    if before is not None and end.answer and _ended_alike(before, latest):
        trail.pop()
        first_at_s = before.at_s if before.first_at_s is None else before.first_at_s
        latest = replace(latest, times=before.times + 1, first_at_s=first_at_s)
    trail.append(latest)


def _ended_alike(one: Actuation, other: Actuation) -> bool:
    return (one.question, one.outcome, one.why) == (other.question, other.outcome, other.why)


def settled(actuation: Actuation, end: Settlement) -> Actuation:
    """The actuation with its end."""
    return replace(actuation, outcome=end.outcome, ended_at_s=end.at_s, why=end.why)
