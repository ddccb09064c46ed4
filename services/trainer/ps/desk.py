"""What a shard does with a request. Knows no sockets: bytes in, bytes out."""

from __future__ import annotations

from typing import Final

import numpy as np

from services.samples.layout import Floats, Ids
from services.trainer.ps.placement import SLOTS
from services.trainer.ps.slots import SlotDesk
from services.trainer.ps.table import DenseVector, EmbeddingTable, Learning
from services.trainer.ps.wire import SLOT, Flag, Operation, pack_rows, rows_bytes, unpack_rows

_ABSURD: Final = 1e9
"""Its square would fill the optimiser's sums for good."""


class Unfit(ValueError):
    """The request cannot be carried out; nothing was changed. Says why."""


class Elsewhere(Exception):
    """A key's slot is served by another shard, or is on its way to one; nothing was changed."""


class ShardDesk:
    """One shard's parameters, and the operations on them."""

    def __init__(self, *, row_size: int, rows_max: int, learning: Learning) -> None:
        self.table = EmbeddingTable(row_size=row_size, rows_max=rows_max, learning=learning)
        self.dense = DenseVector(learning)
        self.slots = SlotDesk()
        self.version = 0

    def warm_up(self) -> None:
        """Have the inner loops compiled before the first request waits for them. Changes nothing."""
        small = EmbeddingTable(row_size=self.table.row_size, rows_max=4, learning=Learning())
        for first in (0, 3):
            keys = np.arange(first, first + 3, dtype=np.uint64)
            small.push(keys, small.pull(keys))
        small.restore(small.content())

    def answer(
        self, operation: Operation, flags: Flag, keys: Ids, numbers: memoryview, *, now_s: float = 0.0
    ) -> bytes:
        """The body of the answer. Raises Unfit, Elsewhere."""
        if operation in {Operation.PULL, Operation.PUSH} and not self.slots.serves(keys, now_s=now_s):
            raise Elsewhere
        if operation in {Operation.COPY, Operation.TAKE}:
            return self._handed_over(operation, numbers, now_s)
        if operation is Operation.PULL:
            return self._pull(flags, keys)
        if operation is Operation.PUSH:
            self._push(flags, keys, numbers)
        elif operation is Operation.BEGIN:
            self.dense.begin(_sound(np.frombuffer(numbers, np.float32)))
        return b""

    def figures(self) -> dict[str, float]:
        """Rows and what became of them."""
        return {
            "rows": len(self.table),
            "rows_max": self.table.rows_max,
            "evicted": self.table.evicted,
            "unknown": self.table.unknown,
            "version": self.version,
            "dense": len(self.dense.values),
            "slots": int(self.slots.served.sum()),
        }

    def _handed_over(self, operation: Operation, numbers: memoryview, now_s: float) -> bytes:
        """A slot's rows for another shard; with TAKE nobody changes them here any more."""
        slot, shard, _ = slot_asked(numbers)
        is_here = self.slots.served[slot]
        if operation is Operation.TAKE:
            is_here = self.slots.freeze(slot, shard, now_s=now_s)
        if not is_here:
            raise Unfit(f"slot {slot} is not served here")
        return self.table.slot(slot).written()

    def _pull(self, flags: Flag, keys: Ids) -> bytes:
        body = pack_rows(self.table.pull(keys), flags)
        return body + self.dense.values.tobytes() if flags & Flag.DENSE else body

    def _push(self, flags: Flag, keys: Ids, numbers: memoryview) -> None:
        """All of it or nothing: what is wrong is found before anything moves."""
        split = rows_bytes(len(keys), self.table.row_size, flags)
        if len(numbers) < split:
            raise Unfit(f"{len(numbers)} bytes of gradients for {len(keys)} keys; {split} were expected")
        gradients = _sound(unpack_rows(numbers[:split], len(keys), self.table.row_size, flags))
        dense = _sound(np.frombuffer(numbers[split:], np.float32))
        known = len(self.dense.values)
        if known and len(dense) not in (known, 0):
            raise Unfit(f"a dense gradient of {len(dense)} numbers; the dense part has {known}")
        self.table.push(keys, gradients)
        # A shard that came back with nothing has no dense part until a worker begins it again.
        if known and len(dense):
            self.dense.push(dense)
        self.version += 1


def slot_asked(numbers: memoryview) -> tuple[int, int, int]:
    """The slot that a request names, the shard that wants it, its process's epoch. Raises Unfit."""
    if len(numbers) != SLOT.size:
        raise Unfit(f"{len(numbers)} bytes name no slot")
    slot, shard, epoch = SLOT.unpack(numbers)
    if slot >= SLOTS:
        raise Unfit(f"there is no slot {slot}")
    return slot, shard, epoch


def _sound(numbers: Floats) -> Floats:
    if not np.abs(numbers).max(initial=0.0) < _ABSURD:  # also refuses NaN
        raise Unfit(f"a number is not finite, or beyond {_ABSURD:g}")
    return numbers
