"""Which node a worker should go to: whole and high-end GPUs packed together, the rest spread (PAI)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from estimator.fleet.budget import Node

WEIGHTS = (1.0, 1.0, 2.0)
"""Of CPU, memory and GPU in a node's allocation: GPUs are what runs out first."""


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A node and what is given away of it."""

    node: Node
    gpus: float = 0.0
    cpus: float = 0.0
    memory_gib: float = 0.0

    @property
    def allocation(self) -> float:
        """Weighted share that is given away, over what is known of the node."""
        parts = [
            (weight, used / there)
            for weight, used, there in zip(
                WEIGHTS,
                (self.cpus, self.memory_gib, self.gpus),
                (self.node.cpus, self.node.memory_gib, float(self.node.gpus)),
                strict=True,
            )
            if there > 0
        ]
        return sum(weight * share for weight, share in parts) / sum(weight for weight, _ in parts)


@dataclass(frozen=True, slots=True)
class WorkerNeed:
    """What one worker takes."""

    gpus: float
    cpus: float = 0.0
    memory_gib: float = 0.0
    gpu_types: tuple[str, ...] = ()
    """Where it may run; empty is anywhere."""


def node_for(need: WorkerNeed, loads: Sequence[NodeLoad], *, high_end: Iterable[str] = ()) -> str | None:
    """The node for one more worker; None where none has room.

    Reserve and pack: a worker of whole GPUs, or one that must have a high-end type, goes to the fullest
    node that holds it, so that whole nodes stay free for the next. All others go to the least
    allocated node, and to one of high-end GPUs only where there is no other.
    """
    high = frozenset(high_end)
    fitting = [load for load in loads if _fits(need, load)]
    if not fitting:
        return None
    wants_high = bool(need.gpu_types) and high.issuperset(need.gpu_types)
    if need.gpus >= 1 or wants_high:
        ordinary = [load for load in fitting if load.node.gpu_type not in high]
        pool = fitting if wants_high or not ordinary else ordinary
        return max(
            pool, key=lambda load: (load.gpus / load.node.gpus, load.allocation, _last(load))
        ).node.name
    return min(
        fitting, key=lambda load: (load.node.gpu_type in high, load.allocation, load.node.name)
    ).node.name


def _last(load: NodeLoad) -> tuple[int, ...]:
    """Names in reverse, so that the first one wins a tie among the largest."""
    return tuple(-ord(letter) for letter in load.node.name)


def _fits(need: WorkerNeed, load: NodeLoad) -> bool:
    node = load.node
    return (
        (not need.gpu_types or node.gpu_type in need.gpu_types)
        and load.gpus + need.gpus <= node.gpus
        and (not node.cpus or load.cpus + need.cpus <= node.cpus)
        and (not node.memory_gib or load.memory_gib + need.memory_gib <= node.memory_gib)
    )
