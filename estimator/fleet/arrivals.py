"""On which node a worker that waits should come (PAI): reserve and pack, else the node with most to spare.

Workers of whole or high-end GPUs are packed, so that whole nodes stay free for whoever needs them; others go
where CPU, memory and GPUs are least taken, and open no free node while another has room. Nobody takes a place
that a guarantee needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from estimator.fleet.budget import Budget
from estimator.fleet.cells import cells_of
from estimator.fleet.layout import Layout, Resident, Shape, laid_out
from estimator.fleet.machines import WEIGHTS, Amounts, Machine
from estimator.fleet.standing import JobId, Standing

STRANGER = JobId("", "")
"""Whoever has GPUs of the fleet and is none of its jobs, one GPU at a time. No job is without a name."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A worker that waits to be told its node."""

    worker: str
    needs: Amounts
    nodes: frozenset[str]
    """Where the platform would let it run, whatever is taken there."""
    job: JobId | None = None
    """None is nobody's of the fleet: it is guaranteed nothing."""


class SeatReason(Enum):
    """Why a worker comes where it comes, or has no place."""

    RESERVED = "reserved"
    """Where cells are kept for its job's guarantee."""
    PACKED = "packed"
    SPREAD = "spread"
    FULL = "full"
    """No node that may take it has room."""
    KEPT = "kept"
    """There is room, and all of it is needed for guarantees."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a worker should come; nowhere when `node` is empty."""

    node: str
    reason: SeatReason


@dataclass(slots=True)
class Floor:
    """Everything that a choice looks at. Each seat given is taken when the next one is chosen."""

    budget: Budget
    machines: dict[str, Machine]
    standings: Mapping[JobId, Standing] = field(default_factory=dict)
    homes: Mapping[JobId, str] = field(default_factory=dict)
    """By job, the type that holds its guarantee."""
    residents: list[Resident] = field(default_factory=list)
    """Of all jobs; GPUs that belong to none are `STRANGER`'s."""
    lent: Mapping[JobId, int] = field(default_factory=dict)
    weights: Amounts = WEIGHTS
    _layouts: dict[str, Layout] = field(default_factory=dict)
    """By type, as it is now."""

    def seat(self, arrival: Arrival) -> Seat:
        """The node for one worker. Its place is taken from here on."""
        fitting = [
            machine
            for name, machine in self.machines.items()
            if name in arrival.nodes and machine.holds(arrival.needs)
        ]
        if not fitting:
            return Seat("", SeatReason.FULL)
        seat = self._chosen(arrival, fitting)
        if seat.node:
            self._sit(arrival, seat.node)
        return seat

    def _chosen(self, arrival: Arrival, fitting: Sequence[Machine]) -> Seat:
        packs = self._packs(arrival)
        ordered = sorted(fitting, key=lambda machine: self._rank(machine, arrival.needs, packs=packs))
        usual = SeatReason.PACKED if packs else SeatReason.SPREAD
        if arrival.needs.gpus <= 0:
            return Seat(ordered[0].name, usual)
        promised = self._promised(arrival)
        own = frozenset[str]() if promised is None else self._own(promised, arrival.needs)
        ordered.sort(key=lambda machine: machine.name not in own)
        for machine in ordered:
            if machine.name in own:
                return Seat(machine.name, SeatReason.RESERVED)
            if self._leaves_guarantees(arrival, machine.name, promised):
                return Seat(machine.name, usual)
        # Nodes are lost and not all guarantees have a place: then any GPU is better than none.
        return Seat("", SeatReason.KEPT) if promised is None else Seat(ordered[0].name, SeatReason.RESERVED)

    def _rank(
        self, machine: Machine, needs: Amounts, *, packs: bool
    ) -> tuple[float, bool, float, float, str]:
        """The lower the better: high-end and whole nodes are reserved, then packed or spread."""
        after = machine.with_one(needs).taken
        left = machine.room.gpus - after.gpus if packs else 0.0
        price = machine.price if machine.room.gpus > 0 else -1.0
        return price, machine.whole, left, after.allocation(machine.room, self.weights), machine.name

    def _packs(self, arrival: Arrival) -> bool:
        """Whether it needs whole GPUs, or high-end ones: types of which none is the cheapest there is."""
        standing = None if arrival.job is None else self.standings.get(arrival.job)
        if arrival.needs.gpus >= 1 or standing is None or not arrival.needs.gpus:
            return arrival.needs.gpus >= 1
        prices = {kind: self.budget.price(kind) for kind in self.budget.gpus}
        allowed = [prices[kind] for kind in standing.gpu_types if kind in prices]
        return bool(allowed) and min(allowed) > min(prices.values())

    def _promised(self, arrival: Arrival) -> JobId | None:
        """The job of which it is a guaranteed worker, by how many are at home; None where it is not."""
        job = arrival.job
        if job is None or job not in self.standings:
            return None
        kind = self.homes.get(job, "")
        names = {node.name for node in self.budget.there if node.gpu_type == kind}
        there = sum(one.workers for one in self.residents if one.job == job and one.node in names)
        return job if there < self._kept(job, kind) and not names.isdisjoint(arrival.nodes) else None

    def _own(self, job: JobId, needs: Amounts) -> frozenset[str]:
        """The nodes with room in the cells that are bound to a job."""
        layout = self._layout(self.homes[job])
        used = {gpu for cell in layout.units.get(job, ()) for gpu in cell.numbers}
        free = [
            cell
            for bound in layout.bound.get(job, ())
            for cell in bound.walk()
            if cell.node and used.isdisjoint(cell.numbers)
        ]
        return frozenset(cell.node for cell in free if cell.gpus >= _unit(needs))

    def _leaves_guarantees(self, arrival: Arrival, name: str, promised: JobId | None) -> bool:
        """Whether every guarantee on the node's type still finds its cells when the worker is there.

        What is bound to a guarantee is not free; a guaranteed worker may begin a cell that its job is owed.
        """
        kind = self._kind(name)
        if not any(self._kept(job, kind) for job in self.standings):
            return True
        layout = self._layout(kind)
        owing, place = layout.owing(), _place(layout, name)
        begun = layout.owed.get(promised, []) if promised is not None else []
        for size in (*begun[:1], _unit(arrival.needs)):
            free = layout.free()
            if free.take_at(size, place) is not None:
                rest = list(owing)
                if begun and size == begun[0]:
                    rest.remove(size)
                if free.can_hold(rest):
                    return True
        return False

    def _kind(self, name: str) -> str:
        """The type of a node's GPUs; empty for one that is none of the fleet's."""
        return next((node.gpu_type for node in self.budget.there if node.name == name), "")

    def _layout(self, kind: str) -> Layout:
        """Drawn anew when somebody has sat down on the type."""
        if kind not in self._layouts:
            shapes = [
                Shape(job, standing.weight, self._kept(job, kind), standing.gpus_per_worker)
                for job, standing in sorted(self.standings.items())
            ]
            counted: Counter[tuple[JobId, str]] = Counter()
            for resident in self.residents:
                counted[resident.job, resident.node] += resident.workers
            residents = [Resident(job, node, workers) for (job, node), workers in sorted(counted.items())]
            cells = cells_of([node for node in self.budget.there if node.gpu_type == kind])
            self._layouts[kind] = laid_out(cells, [*shapes, Shape(STRANGER, 0.0, 0)], residents)
        return self._layouts[kind]

    def _kept(self, job: JobId, kind: str) -> int:
        """Workers for which cells are kept on a type."""
        if self.homes.get(job) != kind:
            return 0
        return max(0, self.standings[job].guaranteed - self.lent.get(job, 0))

    def _sit(self, arrival: Arrival, node: str) -> None:
        self.machines[node] = self.machines[node].with_one(arrival.needs)
        self._layouts.pop(self._kind(node), None)
        if arrival.job is not None and arrival.job in self.standings:
            self.residents.append(Resident(arrival.job, node, 1))
        elif arrival.needs.gpus > 0:
            self.residents.append(Resident(STRANGER, node, _unit(arrival.needs)))


def in_order(arrivals: Iterable[Arrival], floor: Floor) -> list[Arrival]:
    """Who is seated first: jobs that have less than they are guaranteed, then the heavy, then by name."""
    there: Counter[JobId] = Counter()
    for resident in floor.residents:
        there[resident.job] += resident.workers

    def rank(arrival: Arrival) -> tuple[bool, float, float, str]:
        standing = None if arrival.job is None else floor.standings.get(arrival.job)
        if standing is None:
            return True, 0.0, -arrival.needs.gpus, arrival.worker
        short = there[standing.id] < standing.guaranteed
        return not short, -standing.weight, -arrival.needs.gpus, arrival.worker

    return sorted(arrivals, key=rank)


def _place(layout: Layout, node: str) -> range:
    """The numbers of a node's GPUs."""
    cells = (cell for top in layout.tops for cell in top.walk() if cell.node == node)
    whole = next(cells, None)
    return range(0) if whole is None else whole.numbers


def _unit(needs: Amounts) -> int:
    return max(1, int(needs.gpus))
