"""Who sits where on one type of GPU, and what must stay free for guarantees.

Nothing is remembered: a layout is worked out from what the platform shows, so a controller that takes
over after a crash has the same one. A job's guarantee is held as cells. Cells in which it already runs,
undisturbed by others, are bound to it whole; the others are not tied to a place, but what is free must
at all times be able to hold them together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from estimator.fleet.buddies import FreeCells
from estimator.fleet.cells import Cell, divided, units_by_size, units_in
from estimator.fleet.standing import JobId


@dataclass(frozen=True, slots=True)
class Resident:
    """Workers of one job on one node, as the platform shows them."""

    job: JobId
    node: str
    workers: int


@dataclass(frozen=True, slots=True)
class Shape:
    """What a layout must know of a job."""

    job: JobId
    weight: float
    guaranteed: int
    """Workers for which cells are held on this type, what may be lent taken off."""
    gpus_per_worker: float = 1.0

    @property
    def unit(self) -> int:
        """GPUs that are taken together: those of a worker, or one that several workers share."""
        return max(1, int(self.gpus_per_worker))

    @property
    def crowd(self) -> int:
        """Workers in a unit."""
        return 1 if self.gpus_per_worker >= 1 else round(1 / self.gpus_per_worker)

    def units(self, workers: int) -> int:
        """Units that so many workers take."""
        return -(-workers // self.crowd)


@dataclass(slots=True)
class Layout:
    """The GPUs of one type: units of jobs, cells bound to guarantees, and guarantees not yet placed."""

    tops: tuple[Cell, ...]
    units: dict[JobId, list[Cell]] = field(default_factory=dict)
    """By job, the cells that its units occupy."""
    bound: dict[JobId, list[Cell]] = field(default_factory=dict)
    owed: dict[JobId, list[int]] = field(default_factory=dict)
    """By job, sizes of guaranteed cells that are not bound; the largest first."""
    _free: FreeCells | None = None

    def taken(self) -> set[int]:
        """GPUs in use, or bound to a guarantee."""
        cells = [cell for held in (self.units, self.bound) for cells in held.values() for cell in cells]
        return {gpu for cell in cells for gpu in cell.numbers}

    def free(self) -> FreeCells:
        """What is neither used nor bound, to try something on; worked out once until somebody leaves."""
        if self._free is None:
            self._free = FreeCells.around(self.tops, self.taken())
        return self._free.copy()

    def left(self, free: FreeCells) -> None:
        """What was tried is done: this is free now."""
        self._free = free

    def leave(self, job: JobId, unit: Cell) -> None:
        """A unit goes, and its buddies may merge."""
        self.units[job].remove(unit)
        self._free = None

    def owing(self) -> list[int]:
        """The sizes of all guaranteed cells that still have to find a place."""
        return [size for sizes in self.owed.values() for size in sizes]

    def safe(self) -> bool:
        """Whether every guarantee that is not bound finds its cells in what is free."""
        return self.free().can_hold(self.owing())

    def room_of_its_own(self, job: JobId, gpus: int) -> Cell | None:
        """A free part of the cells bound to a job, for one more of its units."""
        used = {gpu for cell in self.units.get(job, ()) for gpu in cell.numbers}
        return FreeCells.around(self.bound.get(job, ()), used).take(gpus, in_node=True)


def laid_out(tops: Sequence[Cell], shapes: Sequence[Shape], residents: Iterable[Resident]) -> Layout:
    """The layout that the platform shows, guarantees bound where their jobs run undisturbed.

    A platform shows on which nodes workers are, not on which GPUs of a node: they are taken to sit so
    that the guarantees are best served. Workers on a node that is not there are gone with it.
    """
    drawing = _Drawing(tops, shapes, residents)
    for shape in sorted(shapes, key=lambda shape: (-shape.guaranteed * shape.unit, shape.job)):
        drawing.bind(shape)
    return drawing.finished()


class _Drawing:
    """A layout in the making: who is on which node, and which cells are bound so far."""

    def __init__(self, tops: Sequence[Cell], shapes: Sequence[Shape], residents: Iterable[Resident]) -> None:
        self.layout = Layout(tuple(tops))
        self.nodes = {cell.node: cell for top in tops for cell in _nodes(top)}
        self.shapes = {shape.job: shape for shape in shapes}
        self.around: dict[str, list[Cell]] = {node: [] for node in self.nodes}
        """By node, the cells that it is part of."""
        for cell in (cell for top in tops for cell in top.walk() if not cell.node):
            for node in _nodes(cell):
                self.around[node.node].append(cell)
        self.held: dict[int, dict[int, int]] = {}
        """By size of unit, and of cell: units that it holds."""
        self.where: dict[JobId, set[str]] = {shape.job: set() for shape in shapes}
        self.unbound: dict[str, Counter[JobId]] = {node: Counter() for node in self.nodes}
        """By node and job, units that sit in no bound cell."""
        for resident in residents:
            if resident.node in self.nodes:
                units = self.shapes[resident.job].units(resident.workers)
                self.unbound[resident.node][resident.job] += units
                self.where[resident.job].add(resident.node)
        self.taken: set[int] = set()

    def bind(self, shape: Shape) -> None:
        """Bind what a job's guarantee covers where it runs; owe the rest, less what it has elsewhere."""
        if shape.unit not in self.held:
            self.held[shape.unit] = units_by_size(self.layout.tops, shape.unit)
        owed = list(divided(shape.units(shape.guaranteed), self.held[shape.unit], unit=shape.unit))
        bound: list[Cell] = []
        for size in list(owed):
            cell = self._fullest(shape, size)
            if cell is not None:
                bound.append(cell)
                owed.remove(size)
                self._settle(shape, cell)
        elsewhere = sum(self.unbound[node][shape.job] for node in self.where[shape.job]) * shape.unit
        while owed and owed[-1] <= elsewhere:  # what it has elsewhere stands for its smallest cells
            elsewhere -= owed.pop()
        self.layout.bound[shape.job] = bound
        self.layout.owed[shape.job] = owed

    def finished(self) -> Layout:
        """Everybody who is in no bound cell sits around those, the largest units first."""
        for node, units in self.unbound.items():
            for job in sorted(units, key=lambda job: (-self.shapes[job].unit, job)):
                for _ in range(units[job]):
                    free = FreeCells.around([self.nodes[node]], self.taken)
                    cell = free.take(self.shapes[job].unit, in_node=True)
                    if cell is None:
                        break  # more than the node has: what the platform shows is older than the budget
                    self._sit(job, cell)
        return self.layout

    def _fullest(self, shape: Shape, size: int) -> Cell | None:
        """The cell of this size that can hold most of a job's units, with everybody else beside it."""
        best: tuple[int, Cell] | None = None
        for cell in self._candidates(shape.job, size):
            count = min(self._own(shape.job, cell), units_in(cell, shape.unit))
            if count and (best is None or count > best[0]) and self._leaves_room(shape, cell, count):
                best = count, cell
        return None if best is None else best[1]

    def _candidates(self, job: JobId, size: int) -> list[Cell]:
        """Cells of a size that nobody is bound to, where the job has units; in the order of their GPUs."""
        found: dict[int, Cell] = {}
        for node in self.where[job]:
            if self.unbound[node][job]:
                for cell in (*self.around[node], *self.nodes[node].walk()):
                    if cell.gpus == size and self.taken.isdisjoint(cell.numbers):
                        found[cell.first] = cell
        return [found[first] for first in sorted(found)]

    def _own(self, job: JobId, cell: Cell) -> int:
        return sum(self.unbound[node.node][job] for node in self._nodes_of(cell))

    def _nodes_of(self, cell: Cell) -> list[Cell]:
        return [self.nodes[cell.node]] if cell.node else list(_nodes(cell))

    def _leaves_room(self, shape: Shape, cell: Cell, count: int) -> bool:
        """Whether all who are on the cell's nodes still have a place when it is bound."""
        for node in self._nodes_of(cell):
            units = Counter(self.unbound[node.node])
            inside = min(units[shape.job], count if cell.node else units_in(node, shape.unit))
            units[shape.job] -= inside
            sizes = [self.shapes[job].unit for job, number in units.items() for _ in range(number)]
            if not FreeCells.around([node], self.taken | set(cell.numbers)).can_hold(sizes):
                return False
        return True

    def _settle(self, shape: Shape, cell: Cell) -> None:
        """Sit a job's units of the cell's nodes down in it, and keep the whole of it for the job."""
        for node in self._nodes_of(cell):
            part = cell if cell.node else node
            room = FreeCells([part])
            while self.unbound[node.node][shape.job]:
                seat = room.take(shape.unit, in_node=True)
                if seat is None:
                    break
                self._sit(shape.job, seat)
                self.unbound[node.node][shape.job] -= 1
        self.taken.update(cell.numbers)

    def _sit(self, job: JobId, cell: Cell) -> None:
        self.layout.units.setdefault(job, []).append(cell)
        self.taken.update(cell.numbers)


def _nodes(cell: Cell) -> Iterable[Cell]:
    if cell.node:
        yield cell
        return
    for child in cell.children:
        yield from _nodes(child)
