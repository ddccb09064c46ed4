"""Cells of the topology (HiveD): a GPU, the GPUs of a switch, a node, a rack; each made of smaller ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from estimator.fleet.budget import Node


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of the topology. Its GPUs are neighbours in the numbering of their type."""

    name: str
    first: int
    """Number of its first GPU, among those of the type."""
    gpus: int
    children: tuple[Cell, ...] = ()
    node: str = ""
    """The node it is or lies in; empty above nodes."""

    def holds(self, gpu: int) -> bool:
        """Whether a GPU is one of its own."""
        return self.first <= gpu < self.first + self.gpus

    @property
    def numbers(self) -> range:
        """The numbers of its GPUs."""
        return range(self.first, self.first + self.gpus)

    def walk(self) -> Iterator[Cell]:
        """Itself and all cells in it, the larger before the smaller."""
        yield self
        for child in self.children:
            yield from child.walk()


def cells_of(nodes: Sequence[Node]) -> tuple[Cell, ...]:
    """The largest cells of one type's nodes. Nodes in the same rack and switch become buddies.

    >>> [cell.gpus for cell in cells_of([Node("a", "t4", 4, ("r1",)), Node("b", "t4", 4, ("r1",))])]
    [8]
    """
    ordered = sorted(nodes, key=lambda node: (node.within, node.name))
    return _group(ordered, depth=0, first=0, path="")


def _group(nodes: Sequence[Node], *, depth: int, first: int, path: str) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for place, group in groupby(
        nodes, key=lambda node: node.within[depth] if depth < len(node.within) else ""
    ):
        members = list(group)
        if place:
            inner = _group(members, depth=depth + 1, first=first, path=f"{path}{place}/")
            total = sum(cell.gpus for cell in inner)
            # A rack of one node is that node: a level that adds nothing would only hide its size.
            cells += inner if len(inner) == 1 else [Cell(f"{path}{place}", first, total, inner)]
            first += total
        else:
            for node in members:
                cells.append(_node(node, first, path))
                first += node.gpus
    return tuple(cells)


def _node(node: Node, first: int, path: str) -> Cell:
    name = f"{path}{node.name}"
    size = node.switch_gpus or node.gpus
    switches = tuple(
        _halved(f"{name}/{number}", first + number * size, size, node.name)
        for number in range(node.gpus // size)
    )
    inner = switches if len(switches) > 1 else switches[0].children
    return Cell(name, first, node.gpus, inner, node.name)


def _halved(name: str, first: int, gpus: int, node: str) -> Cell:
    """GPUs of which any is as near as the other: halves of halves, so that small units leave large cells."""
    if gpus == 1:
        return Cell(name, first, 1, node=node)
    size = gpus // 2 if gpus % 2 == 0 else 1
    parts = tuple(
        _halved(f"{name}.{number}", first + number * size, size, node) for number in range(gpus // size)
    )
    return Cell(name, first, gpus, parts, node)


def units_in(cell: Cell, unit: int) -> int:
    """How many units of so many GPUs a cell holds, each in a cell of its own within one node.

    >>> cell = cells_of([Node("a", "t4", 8)])[0]
    >>> units_in(cell, 1), units_in(cell, 3), units_in(cell, 8)
    (8, 2, 1)
    """
    if cell.gpus < unit:
        return 0
    inner = sum(units_in(child, unit) for child in cell.children)
    return inner or (1 if cell.node else 0)


def units_by_size(tops: Iterable[Cell], unit: int) -> dict[int, int]:
    """By size of cell, how many units every cell of that size holds at least."""
    held: dict[int, int] = {}
    for cell in (cell for top in tops for cell in top.walk()):
        held[cell.gpus] = min(units_in(cell, unit), held.get(cell.gpus, cell.gpus))
    return held


def divided(units: int, held: Mapping[int, int], *, unit: int) -> tuple[int, ...]:
    """So many units as sizes of cells, the largest first. Cells that units fill without waste come first.

    `held` is how many a cell of each size holds. A unit that no node holds asks for more than there is.

    >>> nodes = cells_of([Node("a", "t4", 8), Node("b", "t4", 8)])
    >>> divided(13, units_by_size(nodes, 1), unit=1)
    (8, 4, 1)
    """
    parts: list[int] = []
    for size in sorted(held, reverse=True):
        if held[size] and held[size] * unit == size:
            parts += [size] * (units // held[size])
            units %= held[size]
    beyond = max(held, default=0) + 1
    holding = min((size for size, count in held.items() if count), default=beyond)
    return tuple(sorted(parts + [holding] * units, reverse=True))
