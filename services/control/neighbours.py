"""Workers that share a GPU: who came on top yields where a guaranteed one is slowed down (AntMan).

A platform tells the node of a worker, not its GPU. So workers with a part of a GPU are neighbours when they
are on one node: whoever yields may have sat on another GPU of it, and nobody who disturbs stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from estimator.fleet import Standing
from estimator.fleet.lending import Neighbourhood
from services.control.types import Observation, WorkerPhase

AWAY_S = 600.0
"""For so long after it yielded a job does not grow: it would land where it was."""


@dataclass(slots=True)
class _Present:
    """Where a job's workers are, by node."""

    guaranteed: bool
    by_node: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Neighbours:
    """Of the jobs of one controller whose workers have a part of a GPU each."""

    def __init__(self) -> None:
        self._present: dict[str, _Present] = {}
        self._pairs: dict[str, dict[str, Neighbourhood]] = {}
        self._away_until_s: dict[str, float] = {}

    def tell(self, job: str, standing: Standing, seen: Observation) -> None:
        """Where the job's workers are, and how long the steps of those with a guarantee take."""
        if standing.gpus_per_worker >= 1:
            self._present.pop(job, None)
            self._pairs.pop(job, None)
            return
        present = _Present(standing.guaranteed > 0)
        for worker in seen.pool.workers:
            if worker.node and worker.phase is WorkerPhase.READY:
                present.by_node[worker.node] = (*present.by_node.get(worker.node, ()), worker.id)
        self._present[job] = present
        if present.guaranteed:
            self._pairs[job] = self._measured(job, present, seen)

    def yielding(self, job: str, *, now_s: float) -> tuple[str, ...]:
        """The workers of a job without a guarantee that have to go: beside one that they slow down."""
        present = self._present.get(job)
        if present is None or present.guaranteed:
            return ()
        disturbed = {
            node
            for other, pairs in self._pairs.items()
            for node, workers in self._present[other].by_node.items()
            if any(worker in pairs and pairs[worker].yields for worker in workers)
        }
        gone = tuple(worker for node in sorted(disturbed) for worker in present.by_node.get(node, ()))
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

    def _measured(self, job: str, present: _Present, seen: Observation) -> dict[str, Neighbourhood]:
        steps = {report.worker: report.steps.compute_s for report in seen.reports if report.steps is not None}
        company = {node for other in self._present.values() if not other.guaranteed for node in other.by_node}
        pairs: dict[str, Neighbourhood] = {}
        for node, workers in present.by_node.items():
            for worker in workers:
                pair, step_s = self._pairs.get(job, {}).get(worker, Neighbourhood()), steps.get(worker, 0.0)
                if step_s > 0:
                    pair = pair.shared(step_s) if node in company else pair.alone(step_s)
                    pairs[worker] = pair
        return pairs
