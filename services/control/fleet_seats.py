"""On which nodes the workers of a growing pool should come, where the pool can be told (Ray)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from estimator.fleet import Budget, InvalidFleet
from estimator.fleet.arrivals import Arrival, Floor
from estimator.fleet.guarantees import homes_of
from estimator.fleet.layout import Resident
from estimator.fleet.machines import Amounts, Machine
from services.control.fleet_book import FleetBook
from services.control.fleet_told import Grant
from services.control.fleet_wish import Word
from services.control.types import WorkerPhase

SEATED_MAX = 64
"""Workers that are told a node in one resize: each takes a look at all nodes of a type."""


def placed(word: Word, granted: Grant, told: Grant | None, book: FleetBook, budget: Budget) -> Grant | None:
    """What a job is told, with nodes for its workers where the pool grows and takes the word for them."""
    workers = granted.workers if granted.gpu_type else min(word.planned, granted.workers)
    kind = granted.gpu_type or word.kind
    if not word.seen.can_place or (kind == word.kind and workers <= word.decision.requested):
        return told
    nodes = nodes_for(word, workers, kind, book, budget)
    return replace(told or granted, nodes=nodes) if nodes else told


def nodes_for(word: Word, workers: int, gpu_type: str, book: FleetBook, budget: Budget) -> tuple[str, ...]:
    """The nodes of a job's workers when there are so many, those that are there included.

    CPU and memory of the nodes are not known here: the platform looks at those. A worker for which all room
    is kept for guarantees is told none. Nobody is where more is guaranteed than there is.
    """
    names = {node.name for node in budget.there if node.gpu_type == gpu_type}
    staying = [one for one in word.seen.pool.workers if one.phase is not WorkerPhase.DRAINING]
    here = [one.node for one in staying if one.node in names]
    missing = min(workers - sum(one.gpu_type in ("", gpu_type) for one in staying), SEATED_MAX)
    if missing < 1:
        return ()
    try:
        floor = _floor(book, budget)
    except InvalidFleet:
        return ()
    needs = Amounts(gpus=word.standing.gpus_per_worker)
    arrivals = [
        Arrival(f"{word.decision.job} {number}", needs, frozenset(names), word.standing.id)
        for number in range(missing)
    ]
    seats = [floor.seat(arrival).node for arrival in arrivals]
    return tuple(sorted(filter(None, (*here, *seats)))) if any(seats) else ()


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
