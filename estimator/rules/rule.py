"""The shape of a sizing rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from estimator.situation import Situation, Sizing

Memory = TypeVar("Memory")


@dataclass(frozen=True, slots=True)
class Rule(Generic[Memory]):
    """A pure function from (situation, memory) to (sizing, memory), with its name and kind of memory.

    `memory` is a frozen dataclass whose defaults are the state before the first
    tick; it is stored between ticks, so a restarted controller goes on where the
    last one stopped.
    """

    name: str
    memory: type[Memory]
    size: Callable[[Situation, Memory], tuple[Sizing, Memory]]
