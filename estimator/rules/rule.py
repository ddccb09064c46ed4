"""The shape of a sizing rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from estimator.situation import Situation, Sizing

Memory = TypeVar("Memory")


def nothing() -> None:
    """Most rules need no preparation."""


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
    period_s: float | None = None
    """How often the original decides; it keeps this pace itself when asked more often. None: every tick."""
    foresees: bool = False
    """Whether it looks at the forecast; a simulation need not make one that nobody reads."""
    reads_learned: bool = True
    """Whether it looks at C(n), lead times or pauses; a simulation need not learn what nobody reads."""
    reads_busy: bool = True
    """Whether it looks at the workers' busy fractions; where it does not, nobody need tell them."""
    prepare: Callable[[], None] = nothing
    """Slow work that needs no situation, such as compiling: done before the first tick, it delays none."""


def is_due(last_s: float | None, now_s: float, period_s: float) -> bool:
    """Whether a rule that last decided at `last_s` decides again.

    A tick that comes a little early counts: clocks are never quite on the grid.

    >>> is_due(None, 0.0, 15.0), is_due(0.0, 10.0, 15.0), is_due(0.0, 14.9, 15.0)
    (True, False, True)
    """
    return last_s is None or now_s - last_s >= 0.98 * period_s
