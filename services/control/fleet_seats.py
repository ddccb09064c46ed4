"""On which nodes the workers of a growing pool should come, where the pool can be told (Ray)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import floor

from estimator.fleet import Budget, InvalidFleet
from estimator.fleet.arrivals import Arrival, Floor
from estimator.fleet.guarantees import homes_of
from estimator.fleet.layout import Resident
from estimator.fleet.machines import Amounts, Machine
from services.control.fleet_book import FleetBook
from services.control.fleet_told import Grant
from services.control.fleet_wish import Word
from services.control.types import WorkerPhase

LOOKS = 4000
"""Nodes that are looked at in an interval for all workers that come: some half a second of computing where
many are guaranteed something. Who comes beyond that is told no node."""


class Seats:
    """Of the jobs of one controller whose pools take the word for nodes."""

    def __init__(self, book: FleetBook, *, interval_s: float) -> None:
        self._book = book
        self._interval_s = interval_s
        self._looks, self._epoch = 0, -1

    def told(self, word: Word, granted: Grant, told: Grant | None, budget: Budget) -> Grant | None:
        """What a job is told, with nodes for its workers where the pool grows and takes the word for them."""
        workers = granted.workers if granted.gpu_type else min(word.planned, granted.workers)
        kind = granted.gpu_type or word.kind
        if not word.seen.can_place or (kind == word.kind and workers <= word.decision.requested):
            return told
        nodes = self._nodes(word, workers, kind, budget)
        return replace(told or granted, nodes=nodes) if nodes else told

    def _nodes(self, word: Word, workers: int, gpu_type: str, budget: Budget) -> tuple[str, ...]:
        """The nodes of a job's workers when there are so many, those that are there included.

        CPU and memory of the nodes are not known here: the platform looks at those. A worker for which all
        room is kept for guarantees is told none; nobody is where more is guaranteed than there is.
        """
        names = {node.name for node in budget.there if node.gpu_type == gpu_type}
        staying = [one for one in word.seen.pool.workers if one.phase is not WorkerPhase.DRAINING]
        here = [one.node for one in staying if one.node in names]
        wanted = workers - sum(one.gpu_type in ("", gpu_type) for one in staying)
        missing = self._affordable(wanted, len(names), now_s=word.decision.at_s)
        if missing < 1:
            return ()
        try:
            machines = _floor(self._book, budget)
        except InvalidFleet:
            return ()
        needs = Amounts(gpus=word.standing.gpus_per_worker)
        arrivals = [
            Arrival(f"{word.decision.job} {number}", needs, frozenset(names), word.standing.id)
            for number in range(missing)
        ]
        seats = [machines.seat(arrival).node for arrival in arrivals]
        return tuple(sorted(filter(None, (*here, *seats)))) if any(seats) else ()

    def _affordable(self, workers: int, nodes: int, *, now_s: float) -> int:
        """How many of them can be told a node in this interval."""
        epoch = floor(now_s / self._interval_s)
        if epoch != self._epoch:
            self._looks, self._epoch = LOOKS, epoch
        count = min(workers, self._looks // max(nodes, 1))
        self._looks -= max(0, count) * nodes
        return count


def _floor(book: FleetBook, budget: Budget) -> Floor:
    standings = {told.id: told.word.standing for told in book}
    machines = {
        node.name: Machine(node.name, Amounts(gpus=node.gpus), price=budget.price(node.gpu_type))
        for node in budget.there
    }
    residents: list[Resident] = []
    for told in book:
        needs = Amounts(gpus=told.word.standing.gpus_per_worker)
        nodes = Counter(one.node for one in told.word.seen.pool.workers if one.node in machines)
        for node, count in sorted(nodes.items()):
            residents.append(Resident(told.id, node, count))
            for _ in range(count):
                machines[node] = machines[node].with_one(needs)
    homes = homes_of(standings.values(), budget)
    return Floor(budget, machines, standings, homes, residents, {told.id: told.loan for told in book})
