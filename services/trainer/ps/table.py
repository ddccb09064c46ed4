"""One shard's embeddings: grows with the ids it meets, up to a bound, and then forgets the longest unused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from services.samples.layout import Floats, Ids
from services.trainer.ps import kernels
from services.trainer.ps.placement import slots_of

_SPARE: Final = 32
"""When the table is full, one row in so many makes room: seldom enough to cost nothing on the way."""


@dataclass(frozen=True, slots=True)
class Learning:
    """How parameters follow their gradients, and which ids get any."""

    rate: float = 0.05
    dense_rate: float = 0.01
    forget: float = 0.01
    """Share of the sum of squares forgotten with each update, so that tastes that drift are followed."""
    scale: float = 0.05
    """The largest number in a new embedding."""
    admit_after: int = 1
    """An id gets a row when it is asked for the so-many-th time."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """A table's content, for a snapshot."""

    keys: Ids
    rows: Floats
    squares: Floats
    used: kernels.Clocks

    def __len__(self) -> int:
        return len(self.keys)

    def written(self) -> bytes:
        """For the wire: keys, squares, rows. When a row was used is the other shard's own affair."""
        return self.keys.tobytes() + self.squares.tobytes() + self.rows.tobytes()

    @classmethod
    def read(cls, body: bytes, row_size: int) -> TableRows:
        """What `written` wrote. Raises ValueError when it is cut short."""
        count, left = divmod(len(body), 8 + 4 + 4 * row_size)
        if left:
            raise ValueError(f"{len(body)} bytes are no rows of {row_size} numbers")
        rows = np.frombuffer(body, np.float32, count * row_size, 12 * count).reshape(count, row_size)
        squares = np.frombuffer(body, np.float32, count, 8 * count)
        return cls(np.frombuffer(body, np.uint64, count), rows, squares, np.zeros(count, np.uint32))


class EmbeddingTable:
    """Rows by key. All memory is asked for at once and taken by the system as rows come to be used."""

    def __init__(self, *, row_size: int, rows_max: int, learning: Learning) -> None:
        self.row_size = row_size
        self.rows_max = rows_max
        self.evicted = 0
        self.unknown = 0
        """Gradients for keys without a row: not admitted, or forgotten meanwhile."""
        self._learning = learning
        places = 1 << (2 * rows_max - 1).bit_length()
        self._index = np.full(places, -1, np.int32)
        self._keys = np.zeros(rows_max, np.uint64)
        self._rows = np.zeros((rows_max, row_size), np.float32)
        self._squares = np.zeros(rows_max, np.float32)
        self._used = np.zeros(rows_max, np.uint32)
        self._free = np.arange(rows_max - 1, -1, -1, dtype=np.int32)
        self._free_count = rows_max
        self._seen = np.zeros(2 * rows_max if learning.admit_after > 1 else 1, np.uint8)
        self._counted = 0
        self._clock = 0

    def __len__(self) -> int:
        return self.rows_max - self._free_count

    def pull(self, keys: Ids) -> Floats:
        """The parameters of these keys, each of which should be there once; new ids get a row."""
        self._tick()
        found = np.empty(len(keys), np.int32)
        missing = kernels.look_up(self._index, self._keys, keys, found)
        if missing:
            self._make_room(missing, found)
            self._admit(keys, found)
        out = np.empty((len(keys), self.row_size), np.float32)
        kernels.gather(self._rows, self._used, np.uint32(self._clock), self._learning.scale, keys, found, out)
        return out

    def push(self, keys: Ids, gradients: Floats) -> None:
        """Move the rows against their gradients. A key without a row is counted and left alone."""
        found = np.empty(len(keys), np.int32)
        self.unknown += kernels.look_up(self._index, self._keys, keys, found)
        learning = self._learning
        kernels.descend(self._rows, self._squares, found, gradients, learning.rate, learning.forget)

    def content(self) -> TableRows:
        """A copy of all there is. Requests wait for it, so rows without a gap are copied as a block."""
        rows = self._live()
        if len(rows) == 0 or rows[-1] != len(rows) - 1:
            return self._copied(rows)
        block = slice(len(rows))
        return TableRows(
            self._keys[block].copy(),
            self._rows[block].copy(),
            self._squares[block].copy(),
            self._used[block].copy(),
        )

    def slot(self, slot: int) -> TableRows:
        """A copy of one slot's rows."""
        return self._copied(self._rows_of(slot))

    def drop(self, slot: int) -> None:
        """Forget one slot's rows."""
        self._let_go(self._rows_of(slot))

    def take_in(self, content: TableRows) -> None:
        """Rows from another shard, in the place of what is here of those keys. They count as just used."""
        self._tick()
        keys, found = content.keys.copy(), np.empty(len(content), np.int32)
        missing = kernels.look_up(self._index, self._keys, keys, found)
        if missing:
            self._make_room(missing, found)
            self._admit(keys, found, after=1)
        here = found >= 0
        self._rows[found[here]], self._squares[found[here]] = content.rows[here], content.squares[here]
        self._used[found[here]] = self._clock

    def restore(self, content: TableRows) -> None:
        """Take over what a snapshot has; the latest used, where it has more than there is room for."""
        newest = np.argsort(content.used, kind="stable")[::-1][: self.rows_max]
        count = len(newest)
        self._keys[:count], self._rows[:count] = content.keys[newest], content.rows[newest]
        self._squares[:count], self._used[:count] = content.squares[newest], content.used[newest]
        self._free_count = self.rows_max - count
        self._free[: self._free_count] = np.arange(self.rows_max - 1, count - 1, -1, dtype=np.int32)
        self._clock = int(content.used.max(initial=0))
        self._index[:] = -1
        kernels.enter(self._index, self._keys, count)

    def _rows_of(self, slot: int) -> kernels.Rows:
        live = self._live()
        mine: kernels.Rows = live[slots_of(self._keys[live]) == slot]
        return mine

    def _live(self) -> kernels.Rows:
        """The rows in use, in order."""
        used = np.ones(self.rows_max, bool)
        used[self._free[: self._free_count]] = False
        return np.flatnonzero(used).astype(np.int32)

    def _copied(self, rows: kernels.Rows) -> TableRows:
        return TableRows(self._keys[rows], self._rows[rows], self._squares[rows], self._used[rows])

    def _let_go(self, rows: kernels.Rows) -> None:
        kernels.remove(self._index, self._keys, self._keys[rows])
        self._free[self._free_count : self._free_count + len(rows)] = rows
        self._free_count += len(rows)

    def _admit(self, keys: Ids, found: kernels.Rows, *, after: int | None = None) -> None:
        learning = self._learning
        self._counted += len(keys)
        if learning.admit_after > 1 and self._counted > 4 * len(self._seen):
            self._seen >>= 1  # what is rare but regular must not add up for ever
            self._counted = 0
        self._free_count = kernels.admit(
            self._index,
            self._keys,
            self._rows,
            self._squares,
            self._free,
            self._free_count,
            self._seen,
            learning.admit_after if after is None else after,
            learning.scale,
            keys,
            found,
        )

    def _make_room(self, wanted: int, found: kernels.Rows) -> None:
        """Forget the rows that were used longest ago, never those that are asked for just now."""
        if wanted <= self._free_count:
            return
        self._used[found[found >= 0]] = self._clock
        live = self._index[self._index >= 0]
        idle = live[self._used[live] < self._clock]
        count = min(len(idle), wanted - self._free_count + self.rows_max // _SPARE)
        if not count:
            return
        oldest = idle[np.argpartition(self._used[idle], count - 1)[:count]]
        self._let_go(oldest)
        self.evicted += count

    def _tick(self) -> None:
        self._clock += 1
        if self._clock == np.iinfo(np.uint32).max:
            self._used >>= np.uint32(1)
            self._clock >>= 1


class DenseVector:
    """The dense part, with Adagrad for each number of it. Empty until somebody says where it starts."""

    def __init__(self, learning: Learning) -> None:
        self.values = np.empty(0, np.float32)
        self.squares = np.empty(0, np.float32)
        self._learning = learning

    def begin(self, values: Floats) -> None:
        """Start from these values, unless it has started."""
        if not len(self.values):
            self.restore(values.copy(), np.zeros_like(values))

    def restore(self, values: Floats, squares: Floats) -> None:
        """Take over what a snapshot has."""
        self.values, self.squares = values, squares

    def push(self, gradient: Floats) -> None:
        """Move against the gradient."""
        self.squares *= np.float32(1.0 - self._learning.forget)
        self.squares += gradient * gradient
        self.values -= (
            np.float32(self._learning.dense_rate) * gradient / np.sqrt(self.squares + np.float32(1e-12))
        )
