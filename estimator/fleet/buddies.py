"""Buddy allocation over cells: the smallest free cell that will do, split as little as possible."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence

from estimator.fleet.cells import Cell


class FreeCells:
    """The largest cells that are wholly free, by size. Worked out anew from what is taken: buddies whose
    GPUs are all free again are one cell again."""

    __slots__ = ("_by_size",)

    def __init__(self, cells: Iterable[Cell] = ()) -> None:
        self._by_size: dict[int, list[Cell]] = {}
        for cell in cells:
            self._add(cell)

    @classmethod
    def around(cls, tops: Iterable[Cell], taken: set[int]) -> FreeCells:
        """What is free where these GPUs are taken."""
        free: list[Cell] = []
        for top in tops:
            _largest_free(top, taken, free)
        return cls(free)

    def copy(self) -> FreeCells:
        """The same, to try something on."""
        other = FreeCells()
        other._by_size = {size: list(cells) for size, cells in self._by_size.items()}
        return other

    def take(self, gpus: int, *, in_node: bool = False) -> Cell | None:
        """A cell of at least so many GPUs, the smallest and then the first; None where there is none.

        `in_node` keeps to one node, as a worker's GPUs must.
        """
        return self._take(gpus, lambda cell: _suits(cell, gpus, in_node=in_node))

    def take_at(self, gpus: int, place: range) -> Cell | None:
        """A cell of at least so many GPUs in a place, or around it; the smallest and then the first."""
        return self._take(gpus, lambda cell: cell.gpus >= gpus and _overlaps(cell, place))

    def can_hold(self, sizes: Sequence[int]) -> bool:
        """Whether cells of all these sizes can be taken one after the other, the largest first.

        Exact where cells of one level are alike, as in HiveD; else it may say no too often, never yes.
        """
        trial = self.copy()
        return all(trial.take(size) is not None for size in sorted(sizes, reverse=True))

    def _take(self, gpus: int, suits: Callable[[Cell], bool]) -> Cell | None:
        for size in sorted(self._by_size):
            if size < gpus:
                continue
            for cell in self._by_size[size]:
                if suits(cell):
                    self._by_size[size].remove(cell)
                    return self._split(cell, suits)
        return None

    def _split(self, cell: Cell, suits: Callable[[Cell], bool]) -> Cell:
        """The smallest part that will do; its buddies stay free."""
        while True:
            suiting = [child for child in cell.children if suits(child)]
            if not suiting:
                return cell
            chosen = min(suiting, key=_size_then_place)
            for child in cell.children:
                if child is not chosen:
                    self._add(child)
            cell = chosen

    def _add(self, cell: Cell) -> None:
        insort(self._by_size.setdefault(cell.gpus, []), cell, key=lambda other: other.first)


def _size_then_place(cell: Cell) -> tuple[int, int]:
    return cell.gpus, cell.first


def _overlaps(cell: Cell, place: range) -> bool:
    return cell.first < place.stop and place.start < cell.first + cell.gpus


def _suits(cell: Cell, gpus: int, *, in_node: bool) -> bool:
    """Whether so many GPUs can be taken from it."""
    if cell.gpus < gpus:
        return False
    if not in_node or cell.node:
        return True
    return any(_suits(child, gpus, in_node=True) for child in cell.children)


def _largest_free(cell: Cell, taken: set[int], free: list[Cell]) -> None:
    if taken.isdisjoint(cell.numbers):
        free.append(cell)
        return
    for child in cell.children:
        _largest_free(child, taken, free)
