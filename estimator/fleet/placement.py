"""Where the workers of a plan go: guarantees first, and nothing that would break one up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from estimator.fleet.cells import Cell
from estimator.fleet.errors import InvalidFleet
from estimator.fleet.layout import Layout, Resident, Shape, laid_out
from estimator.fleet.standing import JobId


@dataclass(frozen=True, slots=True)
class Placement:
    """Where everybody sits on one type, and who could not be seated."""

    seats: tuple[Resident, ...]
    """By job and node, what should run there."""
    refused: Mapping[JobId, int] = field(default_factory=dict)
    """Workers without a place: every free cell that would do is needed for a guarantee."""
    evicted: Mapping[JobId, int] = field(default_factory=dict)
    """Workers beyond their job's guarantee that must leave their place, so that a guarantee has its cells."""

    def workers(self, job: JobId) -> int:
        """How many of a job have a place."""
        return sum(resident.workers for resident in self.seats if resident.job == job)


def check_topology(tops: Sequence[Cell], shapes: Sequence[Shape], gpu_type: str) -> None:
    """Refuse guarantees that fit by their sum and not by their cells."""
    empty = laid_out(tops, shapes, [])
    if not empty.safe():
        cells = ", ".join(f"{size}" for size in sorted(empty.owing(), reverse=True))
        raise InvalidFleet(
            f"the guarantees on {gpu_type} need cells of {cells} GPUs, which its nodes cannot hold together"
        )


def placed(
    tops: Sequence[Cell],
    shapes: Sequence[Shape],
    residents: Sequence[Resident],
    targets: Mapping[JobId, int],
) -> Placement:
    """The seats for `targets` workers of each job, as few of them moved as may be.

    First who is too many leaves, then whoever stands in a guarantee's way, then guaranteed workers come,
    and the others last, where no guarantee is broken up by them.
    """
    layout = laid_out(tops, shapes, _kept(shapes, residents, targets))
    evicted = _cleared(layout, shapes)
    refused: dict[JobId, int] = {}
    ordered = sorted(shapes, key=lambda shape: (-shape.weight, shape.job))
    for shape in ordered:
        _seat(layout, shape, min(shape.guaranteed, targets.get(shape.job, 0)), guaranteed=True)
    for shape in ordered:
        target = targets.get(shape.job, 0)
        _seat(layout, shape, target, guaranteed=False)
        missing = target - min(target, len(layout.units.get(shape.job, ())) * shape.crowd)
        if missing:
            refused[shape.job] = missing
    return Placement(_seats(layout, shapes, targets), refused, evicted)


def _kept(
    shapes: Sequence[Shape], residents: Sequence[Resident], targets: Mapping[JobId, int]
) -> list[Resident]:
    """Who may stay where the targets are lower: those on the nodes where most of their job are."""
    kept: list[Resident] = []
    left = {shape.job: targets.get(shape.job, 0) for shape in shapes}
    for resident in sorted(residents, key=lambda resident: (-resident.workers, resident.node, resident.job)):
        stay = min(resident.workers, left.get(resident.job, 0))
        if stay:
            left[resident.job] -= stay
            kept.append(Resident(resident.job, resident.node, stay))
    return kept


def _cleared(layout: Layout, shapes: Sequence[Shape]) -> dict[JobId, int]:
    """Take away workers beyond a guarantee until every guarantee finds its cells; the lightest jobs first."""
    evicted: Counter[JobId] = Counter()
    for shape in sorted(shapes, key=lambda shape: (shape.weight, shape.job)):
        while not layout.safe():
            surplus = _surplus(layout, shape)
            if surplus is None:
                break
            layout.leave(shape.job, surplus)
            evicted[shape.job] += shape.crowd
    return dict(evicted)


def _surplus(layout: Layout, shape: Shape) -> Cell | None:
    """A unit that a job has beyond its guarantee, the last of them; one in its own cells disturbs nobody."""
    units = layout.units.get(shape.job, [])
    if len(units) <= shape.units(shape.guaranteed):
        return None
    bound = layout.bound.get(shape.job, [])
    return next((unit for unit in reversed(units) if not any(cell.holds(unit.first) for cell in bound)), None)


def _seat(layout: Layout, shape: Shape, target: int, *, guaranteed: bool) -> None:
    """Units for `target` workers: in the job's own cells, in a cell owed to it, then where it is safe."""
    units = layout.units.setdefault(shape.job, [])
    while len(units) < shape.units(target):
        cell = layout.room_of_its_own(shape.job, shape.unit)
        if cell is None and guaranteed:
            if _claim_owed(layout, shape):
                continue
            # Nodes are lost and not all guarantees have a place: then any GPU is better than none.
            free = layout.free()
            cell = free.take(shape.unit, in_node=True)
            layout.left(free)
        elif cell is None:
            cell = _safe_cell(layout, shape)
        if cell is None:
            return
        units.append(cell)


def _claim_owed(layout: Layout, shape: Shape) -> bool:
    """Bind the largest cell still owed to a job; False where none is owed or none is free."""
    owed = layout.owed.get(shape.job)
    if not owed:
        return False
    free = layout.free()
    cell = free.take(owed[0])
    if cell is None:
        return False
    layout.left(free)
    owed.pop(0)
    layout.bound[shape.job].append(cell)
    return True


def _safe_cell(layout: Layout, shape: Shape) -> Cell | None:
    """A free cell for one more unit, after which every guarantee still finds its place."""
    free = layout.free()
    cell = free.take(shape.unit, in_node=True)
    # `take` splits the smallest cell there is: where that breaks a guarantee, a larger one would too.
    if cell is None or not free.can_hold(layout.owing()):
        return None
    layout.left(free)
    return cell


def _seats(layout: Layout, shapes: Sequence[Shape], targets: Mapping[JobId, int]) -> tuple[Resident, ...]:
    seats: list[Resident] = []
    for shape in sorted(shapes, key=lambda shape: shape.job):
        left = targets.get(shape.job, 0)
        on_nodes = Counter(cell.node for cell in layout.units.get(shape.job, ()))
        for node, units in sorted(on_nodes.items(), key=lambda item: (-item[1], item[0])):
            workers = min(left, units * shape.crowd)
            left -= workers
            if workers:
                seats.append(Resident(shape.job, node, workers))
    return tuple(seats)
