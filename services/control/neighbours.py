"""Workers that share a GPU: who came on top yields where a guaranteed one is slowed down (AntMan).

Of a job's workers the oldest are those that it is guaranteed; whoever is beyond them came on top, and so did
every worker of a batch pool. A platform tells the node of a worker, not its GPU. So workers with a part of a
GPU are neighbours when they are on one node: whoever yields may have sat on another GPU of it, and nobody who
disturbs stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from estimator.fleet import Standing
from estimator.fleet.lending import Neighbourhood
from services.control.types import Worker, WorkerPhase, WorkerReport

AWAY_S = 600.0
"""For so long after it yielded a job does not grow: it would land where it was."""

Seats = dict[str, tuple[str, ...]]
"""Workers by node."""


@dataclass(slots=True)
class _Present:
    """Where a job's workers are: the guaranteed, and those beyond."""

    kept: Seats = field(default_factory=dict)
    guests: Seats = field(default_factory=dict)


class Neighbours:
    """Of the jobs of one controller whose workers have a part of a GPU each, and of its batch pool."""

    def __init__(self) -> None:
        self._present: dict[str, _Present] = {}
        self._pairs: dict[str, dict[str, Neighbourhood]] = {}
        self._away_until_s: dict[str, float] = {}

    def tell(
        self, job: str, standing: Standing, workers: Iterable[Worker], reports: Sequence[WorkerReport] = ()
    ) -> None:
        """Where the job's workers are, and how long the steps of those with a guarantee take."""
        if standing.gpus_per_worker >= 1:
            self._present.pop(job, None)
            self._pairs.pop(job, None)
            return
        there = sorted(
            (one for one in workers if one.node and one.phase is WorkerPhase.READY),
            key=lambda one: (one.started_at_s, one.id),
        )
        held = standing.guaranteed
        self._present[job] = _Present(_seats(there[:held]), _seats(there[held:]))
        self._pairs[job] = self._measured(job, reports)

    def yielding(self, job: str, *, now_s: float) -> tuple[str, ...]:
        """The workers beyond a job's guarantee that have to go: beside one of others that they slow down."""
        present = self._present.get(job)
        if present is None or not present.guests:
            return ()
        disturbed = {
            node
            for other, pairs in self._pairs.items()
            if other != job
            for node, workers in self._present[other].kept.items()
            if any(worker in pairs and pairs[worker].yields for worker in workers)
        }
        gone = tuple(worker for node in sorted(disturbed) for worker in present.guests.get(node, ()))
        if gone:
            self.keep_away(job, now_s=now_s)
        return gone

    def keep_away(self, job: str, *, now_s: float) -> None:
        """The job had to give up workers because of where they were."""
        self._away_until_s[job] = now_s + AWAY_S

    def may_grow(self, job: str, *, now_s: float) -> bool:
        """Whether the job may have more: not for a while after it had to yield."""
        return self._away_until_s.get(job, now_s) <= now_s

    def forget(self, job: str) -> None:
        """Nobody of the job shares a GPU, or this controller does not decide for it any more."""
        for memory in (self._present, self._pairs, self._away_until_s):
            memory.pop(job, None)

    def _measured(self, job: str, reports: Sequence[WorkerReport]) -> dict[str, Neighbourhood]:
        steps = {report.worker: report.steps.compute_s for report in reports if report.steps is not None}
        company = {
            node for other, present in self._present.items() if other != job for node in present.guests
        }
        before = self._pairs.get(job, {})
        known = [pair.alone_s for pair in before.values() if pair.alone_s is not None]
        # One that was never alone takes as long as the job's others did: they train the same model.
        stranger = Neighbourhood(alone_s=median(known) if known else None)
        pairs: dict[str, Neighbourhood] = {}
        for node, workers in self._present[job].kept.items():
            for worker in workers:
                pair, step_s = before.get(worker, stranger), steps.get(worker, 0.0)
                if step_s > 0:
                    pairs[worker] = pair.shared(step_s) if node in company else pair.alone(step_s)
                elif worker in before:
                    pairs[worker] = pair  # a report that is missing teaches nothing, and nothing is forgotten
        return pairs


def _seats(workers: Iterable[Worker]) -> Seats:
    seats: Seats = {}
    for worker in workers:
        seats[worker.node] = (*seats.get(worker.node, ()), worker.id)
    return seats
