"""Which slots a shard with time to spare takes from the busiest. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

SLOTS_AT_ONCE: Final = 16
"""Each is frozen for some milliseconds; the rest follows with the next look."""
_CALM: Final = 0.3
"""A shard below this busy share is nobody's bottleneck."""


@dataclass(frozen=True, slots=True)
class Relief:
    """Slots to take, and from whom."""

    shard: int
    slots: tuple[int, ...]


def relief(
    busy: Mapping[int, float], asked: NDArray[np.float64], *, here: int, difference: float
) -> Relief | None:
    """What shard `here` should take, when it is the idlest and another is busier by `difference`.

    `asked` are the keys asked for by slot at the busiest. Slots are taken, the most asked for first, up to
    half of the difference in load: more would only turn the tables. None when there is nothing to win.

    >>> relief({0: 0.9, 1: 0.1}, np.array([50.0, 30.0, 20.0, 0.0]), here=1, difference=0.2)
    Relief(shard=0, slots=(1,))
    """
    if here not in busy or len(busy) < 2:
        return None
    hottest = max(busy, key=lambda shard: busy[shard])
    spread = busy[hottest] - busy[here]
    total = float(asked.sum())
    if min(busy.values()) < busy[here] or busy[hottest] < _CALM or spread <= difference or total <= 0:
        return None
    room, taken = spread / 2.0, list[int]()
    for slot in np.argsort(-asked, kind="stable").tolist():
        load = float(asked[slot]) / total * busy[hottest]
        if load <= 0.0 or len(taken) == SLOTS_AT_ONCE:
            break
        if load <= room:
            taken.append(slot)
            room -= load
    return Relief(hottest, tuple(taken)) if taken else None
