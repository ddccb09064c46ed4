"""Where the fleet's workers sit: who leaves when a pool shrinks, and what of a plan finds no place."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from estimator.fleet import Budget, FleetPlan, JobId, Node, Wish
from estimator.fleet.layout import Resident
from estimator.fleet.node_choice import leaving_order
from estimator.fleet.seating import seated
from services.control.fleet_book import FleetBook
from services.control.fleet_wish import Word
from services.control.types import WorkerPhase


@dataclass(frozen=True, slots=True)
class NodeSeats:
    """One machine of the fleet, and whose workers are on it."""

    node: Node
    lost: bool
    workers: Mapping[JobId, int]
    taken: float
    """GPUs that those hold."""


class Packing:
    """How full each node is, as the jobs' pools show it; added up once an interval."""

    def __init__(self, book: FleetBook, *, interval_s: float) -> None:
        self._book = book
        self._interval_s = interval_s
        self._taken: dict[str, float] = {}
        self._at_s = -math.inf

    def leaving(self, word: Word, budget: Budget) -> tuple[str, ...]:
        """The job's workers in the order in which they should go; of those whose nodes are told."""
        gpus = {node.name: node.gpus for node in budget.there if node.gpus}
        present = sorted(
            (one for one in word.seen.pool.workers if one.node in gpus and one.phase is WorkerPhase.READY),
            key=lambda one: (-one.started_at_s, one.id),
        )
        if len({one.node for one in present}) < 2:
            return ()
        workers = [(one.id, one.node) for one in present]
        return leaving_order(word.standing, workers, gpus, self._loads(word.decision.at_s))

    def seated(self, plan: FleetPlan, wishes: Sequence[Wish], budget: Budget) -> FleetPlan:
        """The plan less what finds no place without breaking up a guarantee: its binding is `place`.

        As it is where a worker's node is not told, or is none of the fleet's: nobody knows the places then.
        """
        names, residents = {node.name for node in budget.there}, []
        for told in self._book:
            nodes = Counter(
                one.node for one in told.word.seen.pool.workers if one.phase is not WorkerPhase.FAILED
            )
            if not nodes.keys() <= names:
                return plan
            residents += [Resident(told.id, node, count) for node, count in sorted(nodes.items())]
        lent = {told.id: told.loan for told in self._book}
        return seated(budget, wishes, plan, residents, lent=lent).plan if residents else plan

    def nodes(self, budget: Budget) -> tuple[NodeSeats, ...]:
        """Every machine of the fleet with the workers that pools tell to be there."""
        workers: dict[str, Counter[JobId]] = {node.name: Counter() for node in budget.nodes}
        taken: defaultdict[str, float] = defaultdict(float)
        for told in self._book:
            for one in told.word.seen.pool.workers:
                if one.node in workers and one.phase is not WorkerPhase.FAILED:
                    workers[one.node][told.id] += 1
                    taken[one.node] += told.word.standing.gpus_per_worker
        return tuple(
            NodeSeats(node, node.name in budget.lost, dict(workers[node.name]), taken[node.name])
            for node in budget.nodes
        )

    def _loads(self, now_s: float) -> dict[str, float]:
        if not 0 <= now_s - self._at_s < self._interval_s:
            taken: defaultdict[str, float] = defaultdict(float)
            for told in self._book:
                for worker in told.word.seen.pool.workers:
                    if worker.node:
                        taken[worker.node] += told.word.standing.gpus_per_worker
            self._taken, self._at_s = dict(taken), now_s
        return self._taken
