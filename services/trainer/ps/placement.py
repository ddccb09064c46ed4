"""From a field's id to a key, from a key to a slot, from a slot to a shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from services.samples.layout import Ids

SLOTS: Final = 1024
_SLOT_SHIFT: Final = np.uint64(54)
_FIELD_STEP: Final = np.uint64(0x9E3779B97F4A7C15)

Slots = NDArray[np.uint16]


def keys_of(ids: Ids) -> Ids:
    """A key for every id, of shape (samples, fields): equal ids of two fields are not equal keys.

    SplitMix64's finaliser is a bijection, so two ids of one field never share a key.

    >>> first, second = keys_of(np.array([[7, 7]], np.uint64)).tolist()[0]
    >>> first == second
    False
    """
    fields = np.arange(ids.shape[1], dtype=np.uint64) * _FIELD_STEP
    mixed = ids + fields
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    keys: Ids = mixed
    return keys


def slots_of(keys: Ids) -> NDArray[np.intp]:
    """The slot of each key: its top ten bits.

    >>> slots_of(np.array([0, 1 << 54, (1 << 64) - 1], np.uint64)).tolist()
    [0, 1, 1023]
    """
    found: NDArray[np.intp] = (keys >> _SLOT_SHIFT).astype(np.intp)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class SlotMap:
    """Which shard keeps each slot."""

    shard_of: Slots

    def __post_init__(self) -> None:
        if self.shard_of.shape != (SLOTS,):
            raise ValueError(f"a slot map has {SLOTS} entries, not {self.shard_of.shape}")

    @classmethod
    def by_capacity(cls, capacities: Sequence[float]) -> SlotMap:
        """Slots in proportion to what each shard can hold or serve.

        >>> np.bincount(SlotMap.by_capacity([1.0, 3.0]).shard_of).tolist()
        [256, 768]
        """
        if not capacities or not all(capacity > 0 for capacity in capacities):
            raise ValueError(f"capacities must be positive, one for each shard: {list(capacities)}")
        upto = np.cumsum(capacities) / sum(capacities) * SLOTS
        shard_of = np.searchsorted(upto, np.arange(SLOTS) + 0.5)
        return cls(np.minimum(shard_of, len(capacities) - 1).astype(np.uint16))

    def shards(self, keys: Ids) -> Slots:
        """The shard of each key."""
        found: Slots = self.shard_of[slots_of(keys)]
        return found

    def moved(self, slot: int, shard: int) -> SlotMap:
        """With one slot on another shard."""
        shard_of = self.shard_of.copy()
        shard_of[slot] = shard
        return SlotMap(shard_of)
