"""What nodes have and what of it is taken: CPU cores, memory, GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a worker takes of a node, or a node has."""

    cores: float = 0.0
    memory_gib: float = 0.0
    gpus: float = 0.0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.cores + other.cores, self.memory_gib + other.memory_gib, self.gpus + other.gpus)

    def within(self, room: Amounts) -> bool:
        """Whether there is room for all of it. Sums of thousandths are not exact."""
        pairs = (self.cores, room.cores), (self.memory_gib, room.memory_gib), (self.gpus, room.gpus)
        return all(needed <= there + 1e-6 for needed, there in pairs)

    def allocation(self, room: Amounts, weights: Amounts) -> float:
        """The weighted mean share of a node that is taken, over what the node has at all.

        >>> Amounts(8, 64, 4).allocation(Amounts(32, 256, 8), Amounts(1, 1, 2))
        0.375
        """
        terms = (
            (weights.cores, self.cores, room.cores),
            (weights.memory_gib, self.memory_gib, room.memory_gib),
            (weights.gpus, self.gpus, room.gpus),
        )
        there = [(weight, taken / room) for weight, taken, room in terms if room > 0]
        total = sum(weight for weight, _ in there)
        return sum(weight * share for weight, share in there) / total if total else 0.0


WEIGHTS = Amounts(cores=1.0, memory_gib=1.0, gpus=2.0)
"""What a share of each counts. A node's GPUs cost about as much as all the rest of it, or more."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One node as it is now: what it can give, and what is taken of that."""

    name: str
    room: Amounts
    taken: Amounts = Amounts()
    price: float = 0.0
    """Of one of its GPUs an hour; a node without any costs nothing here."""

    def holds(self, needs: Amounts) -> bool:
        """Whether one more worker fits."""
        return (self.taken + needs).within(self.room)

    @property
    def whole(self) -> bool:
        """Whether it has GPUs and nobody has any of them."""
        return self.room.gpus > 0 and self.taken.gpus <= 0

    def with_one(self, needs: Amounts) -> Machine:
        """With one more worker on it."""
        return replace(self, taken=self.taken + needs)
