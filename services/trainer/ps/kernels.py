"""The inner loops of an embedding table, compiled.

The index is an open-addressed hash of row numbers, -1 where empty, probed one after the other. Keys are
well mixed already, so a key's lowest bits are its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.samples.layout import Floats, Ids
from services.simulator.compiled import compiled

Rows = NDArray[np.int32]
Clocks = NDArray[np.uint32]
Counts = NDArray[np.uint8]


@compiled
def place_of(index: Rows, row_keys: Ids, key: Any) -> int:
    """Where in the index `key` is, or where it would go."""
    mask = np.uint64(len(index) - 1)
    place = key & mask
    while index[place] >= 0 and row_keys[index[place]] != key:
        place = (place + np.uint64(1)) & mask
    return np.int64(place)  # type: ignore[return-value]


@compiled
def look_up(index: Rows, row_keys: Ids, keys: Ids, found: Rows) -> int:
    """The row of each key into `found`, -1 where there is none; how many there are none of."""
    missing = 0
    for at in range(len(keys)):
        found[at] = index[place_of(index, row_keys, keys[at])]
        missing += found[at] < 0
    return missing


@compiled
def first_row(key: Any, scale: float, out: Floats) -> None:
    """What an id starts from: no weight, and a small embedding that depends on the key alone."""
    out[0] = 0.0
    for at in range(1, len(out)):
        mixed = key + np.uint64(at) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        part = np.float64((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0
        out[at] = scale * (2.0 * part - 1.0)


@compiled
def count_seen(seen: Counts, key: Any) -> int:
    """How often this key, or one that shares its counter, has been asked for, up to 255."""
    at = (key >> np.uint64(20)) % np.uint64(len(seen))
    if seen[at] < 255:
        seen[at] += 1
    return np.int64(seen[at])  # type: ignore[return-value]


@compiled
def admit(  # noqa: PLR0917 - the compiler takes arrays one by one
    index: Rows,
    row_keys: Ids,
    rows: Floats,
    squares: Floats,
    free: Rows,
    free_count: int,
    seen: Counts,
    admit_after: int,
    scale: float,
    keys: Ids,
    found: Rows,
) -> int:
    """Give a row to each key without one that was seen often enough, while there are free ones; how many
    free ones are left."""
    for at in range(len(keys)):
        if found[at] >= 0 or free_count == 0:
            continue
        if admit_after > 1 and count_seen(seen, keys[at]) < admit_after:
            continue
        place = place_of(index, row_keys, keys[at])
        if index[place] >= 0:  # twice in one request
            found[at] = index[place]
            continue
        free_count -= 1
        row = free[free_count]
        index[place] = row
        row_keys[row] = keys[at]
        squares[row] = 0.0
        first_row(keys[at], scale, rows[row])
        found[at] = row
    return free_count


@compiled
def gather(rows: Floats, used: Clocks, clock: Any, scale: float, keys: Ids, found: Rows, out: Floats) -> None:  # noqa: PLR0917 - the compiler takes arrays one by one
    """The parameters of each key; those of a key without a row are what it would start from."""
    for at in range(len(keys)):
        if found[at] < 0:
            first_row(keys[at], scale, out[at])
        else:
            out[at] = rows[found[at]]
            used[found[at]] = clock


@compiled
def descend(  # noqa: PLR0917 - the compiler takes arrays one by one
    rows: Floats,
    squares: Floats,
    found: Rows,
    gradients: Floats,
    rate: float,
    forget: float,
) -> None:
    """Row-wise Adagrad: one sum of squares a row, of which each update forgets a share."""
    width = rows.shape[1]
    for at in range(len(found)):
        row = found[at]
        if row < 0:
            continue
        total = 0.0
        for part in range(width):
            total += gradients[at, part] * gradients[at, part]
        squares[row] = squares[row] * (1.0 - forget) + total / width
        step = rate / np.sqrt(squares[row] + 1e-12)
        for part in range(width):
            rows[row, part] -= step * gradients[at, part]


@compiled
def remove(index: Rows, row_keys: Ids, keys: Ids) -> None:
    """Take keys out of the index, closing the gap behind each so that no probe stops short."""
    mask = np.uint64(len(index) - 1)
    for key in keys:
        hole = np.uint64(place_of(index, row_keys, key))
        place = hole
        while True:
            place = (place + np.uint64(1)) & mask
            row = index[place]
            if row < 0:
                break
            home = row_keys[row] & mask
            if ((place - home) & mask) >= ((place - hole) & mask):
                index[hole] = row
                hole = place
        index[hole] = -1


@compiled
def enter(index: Rows, row_keys: Ids, rows: int) -> None:
    """Put the first `rows` rows into an empty index."""
    for row in range(rows):
        index[place_of(index, row_keys, row_keys[row])] = row
