"""Plan who owns which partitions: load in proportion to speed, as few moves as that takes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffler.assignment import Assignment

TOLERANCE = 0.1
"""A worker may carry this share above its fair load before a partition is moved away from it."""
_ROUNDING = 1e-9
"""A gain smaller than this is the arithmetic's: acting on it would move partitions to and fro."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that changed hands. One that nobody owned before, or whose owners left, did not."""

    partition: int
    before: tuple[str, ...]
    after: tuple[str, ...]


def rebalance(
    current: Assignment,
    partition_loads: Sequence[float],
    worker_speeds: Mapping[str, float],
    *,
    moves_max: int | None = None,
) -> tuple[Assignment, tuple[Move, ...]]:
    """Owners for every partition among the live workers, keeping what can be kept, and what moved.

    A partition that is more than the fair share of the fastest worker is split. Any other has one
    owner: the one it has, or else whoever is least loaded for its speed; then partitions move away
    from those above their fair share plus TOLERANCE while that lowers the peak, at most `moves_max`
    of them. Those to split go last, as sand between stones: to their owners so far first, to each
    up to its fair share. A worker that still has nothing shares the heaviest partition. No workers,
    no owners.

    >>> assignment, moves = rebalance(Assignment(), [5.0, 5.0], {"a": 1.0, "b": 1.0})
    >>> assignment.owners, moves
    ({0: ('a',), 1: ('b',)}, ())
    """
    if not worker_speeds:
        return Assignment(), ()
    plan = _Plan(current, partition_loads, worker_speeds)
    plan.place_orphans()
    plan.even_out(moves_max)
    plan.split_hot()
    after = Assignment(plan.owners())
    return after, _moves(current, after, worker_speeds)


class _Plan:
    """One plan in the making; workers are numbered in the order of their names."""

    def __init__(
        self, current: Assignment, partition_loads: Sequence[float], worker_speeds: Mapping[str, float]
    ) -> None:
        self._names = sorted(worker_speeds)
        self._speeds = _believable(np.array([worker_speeds[name] for name in self._names], dtype=np.float64))
        # A partition without measured traffic still has to be read: spread those evenly too.
        given = _believable(np.asarray(partition_loads, dtype=np.float64), least=0.0)
        self._loads: Floats = np.maximum(given, max(float(given.sum()), 1.0) * 1e-6)
        self._load: list[float] = self._loads.tolist()
        self._fair = float(self._loads.sum() / self._speeds.sum())
        self._carried: Floats = np.zeros(len(self._names))
        number = {name: place for place, name in enumerate(self._names)}
        self._alive = {
            partition: [number[name] for name in owners if name in number]
            for partition, owners in current.owners.items()
            if partition < len(self._loads)
        }
        limit = self._fair * float(self._speeds.max()) * (1 + TOLERANCE)
        self._hot = self._heaviest_first(np.flatnonzero(self._loads > limit * (1 + _ROUNDING)))
        """The partitions that no worker should carry alone."""
        self._shared: dict[int, list[int]] = {}
        self._owner = np.full(len(self._loads), -1)
        self._before = self._owner
        """Who had each partition to itself and lives."""

    def split_hot(self) -> None:
        """Share out the partitions that no worker should carry alone, the heaviest first."""
        for partition in self._hot:
            self._shared[partition] = self._filled(partition)

    def _filled(self, partition: int) -> list[int]:
        """Who shares `partition`: each takes up to its fair share, until nothing is left of it."""
        room = self._fair * self._speeds - self._carried
        so_far = self._alive.get(partition, [])
        others = [w for w in np.argsort(-room, kind="stable").tolist() if w not in so_far]
        left, takers = self._load[partition], []
        for worker in (*so_far, *others):
            if left <= self._load[partition] * _ROUNDING:
                break
            part = min(left, float(room[worker]))
            if part > 0:
                takers.append(worker)
                self._carried[worker] += part
                left -= part
        return takers or [int(np.argmax(room))]

    def place_orphans(self) -> None:
        """Keep the owners that live; give what has none to whoever is least loaded for its speed."""
        hot = set(self._hot)
        for partition, alive in self._alive.items():
            if alive and partition not in hot:
                self._owner[partition] = alive[0]
        self._before = self._owner.copy()
        kept = self._owner >= 0
        np.add.at(self._carried, self._owner[kept], self._loads[kept])
        slowness, after = 1.0 / self._speeds, np.empty_like(self._speeds)
        placed = []
        for partition in self._heaviest_first(np.flatnonzero(~kept)):
            if partition in hot:
                continue
            load = self._load[partition]
            np.add(self._carried, load, out=after)
            np.multiply(after, slowness, out=after)
            worker = int(after.argmin())
            self._carried[worker] += load
            placed.append((partition, worker))
        for partition, worker in placed:
            self._owner[partition] = worker

    def _heaviest_first(self, partitions: NDArray[np.int64]) -> list[int]:
        order = np.argsort(-self._loads[partitions], kind="stable")
        return [int(partition) for partition in partitions[order]]

    def even_out(self, moves_max: int | None) -> None:
        """Move partitions away from the most loaded while that lowers the peak.

        Only what leaves a living owner counts as a move: what had none has to go somewhere anyway.
        """
        limits = self._fair * (1 + TOLERANCE) * self._speeds
        queues: dict[int, list[tuple[float, int]]] = {}
        left = math.inf if moves_max is None else moves_max
        # Every move lowers a peak, so this ends long before.
        for _ in range(len(self._loads) * len(self._names)):
            most = int(np.argmax(self._carried / self._speeds))
            if self._carried[most] <= limits[most] * (1 + _ROUNDING):
                return
            if most not in queues:
                queues[most] = self._movable(most, all_of_them=left > 0)
            place = self._best_move(most, queues[most], limits)
            if place is None:
                return
            load, negative = queues[most].pop(place)
            to = self._move(-negative, load, most)
            if to in queues:
                queues[to].insert(bisect_left(queues[to], (load, negative)), (load, negative))
            home, had = int(self._before[-negative]), left
            left += (home == to) - (home == most)  # what comes home again was not moved at all
            if 0 in (had, left) and had != left:
                queues.clear()  # those of before may no longer be moved, or again

    def _movable(self, worker: int, *, all_of_them: bool) -> list[tuple[float, int]]:
        """What may be taken from `worker`, lightest first; not all when its own of before must stay."""
        mine = self._owner == worker
        taken = mine if all_of_them else mine & (self._before != worker)
        return sorted((self._load[p], -p) for p in np.flatnonzero(taken).tolist())

    def _move(self, partition: int, load: float, source: int) -> int:
        """Give a partition to whoever is least loaded with it; who that is."""
        after = (self._carried + load) / self._speeds
        after[source] = np.inf
        to = int(np.argmin(after))
        self._owner[partition] = to
        self._carried[source] -= load
        self._carried[to] += load
        return to

    def _best_move(self, most: int, queue: list[tuple[float, int]], limits: Floats) -> int | None:
        """Which of its partitions `most` should give away: the one that settles the matter at once and
        fits elsewhere, else the heaviest that fits, else the heaviest that lowers the peak."""
        if not queue or len(self._names) == 1:
            return None
        room = limits - self._carried
        peak = float(self._carried[most] / self._speeds[most]) * (1 - _ROUNDING)
        lower = peak * self._speeds - self._carried
        room[most] = lower[most] = -np.inf
        fitting = bisect_left(queue, (float(room.max()) * (1 + _ROUNDING), 1)) - 1
        enough = bisect_left(
            queue, (float(self._carried[most] - limits[most]) * (1 - _ROUNDING), -len(self._loads))
        )
        if enough <= fitting:
            return enough
        if fitting >= 0:
            return fitting
        lowering = bisect_left(queue, (float(lower.max()), -len(self._load))) - 1
        return lowering if lowering >= 0 else None

    def owners(self) -> dict[int, tuple[str, ...]]:
        """Names for numbers, with those who have nothing beside the owners of the heaviest."""
        names = self._names
        owners: dict[int, tuple[str, ...]] = {
            p: (names[w],) if w >= 0 else () for p, w in enumerate(self._owner.tolist())
        }
        for partition, takers in self._shared.items():
            owners[partition] = tuple(names[worker] for worker in takers)
        busy = {name for several in owners.values() for name in several}
        for idle in (name for name in names if name not in busy):
            if not owners:
                break
            hottest = max(owners, key=lambda p: (self._load[p] / len(owners[p]), -p))
            owners[hottest] = (*owners[hottest], idle)
        return owners


def _believable(figures: Floats, *, least: float = np.nextafter(0.0, 1.0)) -> Floats:
    """A speed or a load that cannot be is replaced by the mean of those that can."""
    sound = np.isfinite(figures) & (figures >= least)
    return np.where(sound, figures, figures[sound].mean() if sound.any() else 1.0)


def _moves(current: Assignment, after: Assignment, worker_speeds: Mapping[str, float]) -> tuple[Move, ...]:
    """Partitions that a live worker owned alone or first, and no longer does; or that were split anew."""
    moves = []
    for partition, owners in after.owners.items():
        before = current.owners.get(partition, ())
        if before == owners or not any(name in worker_speeds for name in before):
            continue
        if before[0] not in owners or len(owners) > len(before):
            moves.append(Move(partition, before, owners))
    return tuple(moves)
