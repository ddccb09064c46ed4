"""The GPUs there are: nodes of one type each, where they stand, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from estimator.fleet.errors import InvalidFleet

NODE_GPUS = 8
"""GPUs in a node where only counts are known."""


@dataclass(frozen=True, slots=True)
class Node:
    """One machine and its GPUs, all of one type."""

    name: str
    gpu_type: str
    gpus: int
    within: tuple[str, ...] = ()
    """What it stands in, the outermost first: rack, then switch. Nodes with the same path are neighbours."""
    switch_gpus: int = 0
    """GPUs under one switch inside the node, where it has several; 0 is all of them under one."""

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise InvalidFleet(
                f"node {self.name!r} has {self.gpus} GPUs; leave it out or give it one at least"
            )
        if self.switch_gpus < 0 or (self.switch_gpus and self.gpus % self.switch_gpus):
            raise InvalidFleet(
                f"node {self.name!r} has {self.gpus} GPUs, which switches of {self.switch_gpus} do not divide"
            )


@dataclass(frozen=True, slots=True)
class Budget:
    """Every node that may be used. An immutable value: a lost node is another budget.

    >>> Budget.counted({"a100": 10, "t4": 4}).gpus
    {'a100': 10, 't4': 4}
    """

    nodes: tuple[Node, ...]
    prices: Mapping[str, float] = field(default_factory=dict)
    """What a GPU of a type costs an hour; 1 where nothing is said."""
    lost: frozenset[str] = frozenset()
    """Names of nodes that should be there and are not: they count for what may be promised, not for now."""

    def __post_init__(self) -> None:
        names = [node.name for node in self.nodes]
        twice = (
            sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        )
        if twice:
            raise InvalidFleet(f"two nodes are named {twice[0]!r}; a node's name is its identity")
        for kind, price in self.prices.items():
            if not (math.isfinite(price) and price >= 0):
                raise InvalidFleet(f"a GPU of {kind!r} costs {price} an hour; a price is a number from 0")

    @classmethod
    def counted(
        cls,
        counts: Mapping[str, int],
        *,
        node_gpus: int = NODE_GPUS,
        prices: Mapping[str, float] | None = None,
    ) -> Budget:
        """A budget of which only the counts are known: nodes of `node_gpus` each, the last one smaller."""
        nodes: list[Node] = []
        for kind, count in counts.items():
            sizes = [node_gpus] * (count // node_gpus) + ([count % node_gpus] if count % node_gpus else [])
            nodes += [Node(f"{kind}-{number}", kind, size) for number, size in enumerate(sizes)]
        return cls(tuple(nodes), dict(prices or {}))

    @property
    def there(self) -> tuple[Node, ...]:
        """The nodes that are not lost."""
        return tuple(node for node in self.nodes if node.name not in self.lost)

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs of each type that are there; 0 for a type whose nodes are all lost."""
        counts = dict.fromkeys((node.gpu_type for node in self.nodes), 0)
        for node in self.there:
            counts[node.gpu_type] += node.gpus
        return counts

    @property
    def declared(self) -> dict[str, int]:
        """GPUs of each type, lost nodes included: what guarantees are given on."""
        return replace(self, lost=frozenset()).gpus

    def price(self, gpu_type: str) -> float:
        """What a GPU of this type costs an hour."""
        return self.prices.get(gpu_type, 1.0)

    @property
    def worth_per_hour(self) -> float:
        """What all that is there costs an hour."""
        return sum(node.gpus * self.price(node.gpu_type) for node in self.there)

    def without(self, names: Iterable[str]) -> Budget:
        """The budget that never had these nodes.

        A name that is not there is an error: a typo must not read as a loss that nobody minds.
        """
        gone = frozenset(names)
        unknown = sorted(gone - {node.name for node in self.nodes})
        if unknown:
            raise InvalidFleet(f"there is no node {unknown[0]!r} to take away")
        return replace(self, nodes=tuple(node for node in self.nodes if node.name not in gone))

    def losing(self, names: Iterable[str]) -> Budget:
        """The same budget while these nodes are lost, those of others' loss included."""
        return replace(self, lost=self.lost | frozenset(names))

    def node_sizes(self, gpu_type: str) -> frozenset[int]:
        """How many GPUs the nodes of a type have, those that are lost left out."""
        return frozenset(node.gpus for node in self.there if node.gpu_type == gpu_type)
