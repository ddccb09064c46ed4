"""Which slots a shard with time to spare takes from the busiest. Pure.

On unequal machines, or beside other work, shards can serve unequal amounts. What each can is what it was
asked for in a busy second; the load is levelled by that, as BytePS levels it by what is left of each network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

SLOTS_AT_ONCE: Final = 16
"""Each is frozen for some milliseconds; the rest follows with the next look."""
_CALM: Final = 0.3
"""A shard below this busy share is nobody's bottleneck."""
_TELLS: Final = 0.02
"""A shard that is hardly busy does not tell what it could serve: it is taken for one like the others."""

Asked = NDArray[np.float64]
"""Keys asked for by slot."""


@dataclass(frozen=True, slots=True)
class Relief:
    """Slots to take, and from whom."""

    shard: int
    slots: tuple[int, ...]


def relief(
    busy: Mapping[int, float], asked: Mapping[int, Asked], *, here: int, difference: float
) -> Relief | None:
    """What shard `here` should take, when it is the idlest and another is busier by `difference`.

    Slots are taken, the most asked for first, up to where both serve their share: more would only turn the
    tables. None when there is nothing to win.

    >>> hot, idle = np.array([50.0, 30.0, 10.0, 0.0]), np.array([0.0, 0.0, 0.0, 10.0])
    >>> relief({0: 0.9, 1: 0.1}, {0: hot, 1: idle}, here=1, difference=0.2)
    Relief(shard=0, slots=(1, 2))
    """
    if here not in busy or len(busy) < 2:
        return None
    hottest = max(busy, key=lambda shard: busy[shard])
    spread = busy[hottest] - busy[here]
    if min(busy.values()) < busy[here] or busy[hottest] < _CALM or spread <= difference:
        return None
    load = {shard: float(asked[shard].sum()) for shard in busy}
    level = levelled(busy, load)
    room, taken = min(level[here] - load[here], load[hottest] - level[hottest]), list[int]()
    for slot in np.argsort(-asked[hottest], kind="stable").tolist():
        keys = float(asked[hottest][slot])
        if keys <= 0.0 or len(taken) == SLOTS_AT_ONCE:
            break
        if keys <= room:
            taken.append(slot)
            room -= keys
    return Relief(hottest, tuple(taken)) if taken else None


def levelled(busy: Mapping[int, float], load: Mapping[int, float]) -> dict[int, float]:
    """The load of each shard with which all would be equally busy.

    >>> levelled({0: 0.8, 1: 0.1}, {0: 80.0, 1: 40.0})
    {0: 24.0, 1: 96.0}
    """
    known = {shard: load[shard] / busy[shard] for shard in busy if busy[shard] >= _TELLS and load[shard] > 0}
    usual = fmean(known.values()) if known else 1.0
    able = {shard: known.get(shard, usual) for shard in busy}
    total, most = sum(load.values()), sum(able.values())
    return {shard: total * one / most for shard, one in able.items()}
