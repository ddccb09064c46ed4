"""When did an offset arrive? (time, end offset) points of every partition, thinner the older they are. Pure.

A sample at offset w arrived after the last point whose end was at most w, and
not after the next one. That dates every sample without reading any, to the
resolution kept at its age: 1 s for ten minutes, 10 s for two hours, 1 min for a day.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.meter.history import Resolution
from services.meter.poll import Offsets

Times = NDArray[np.float64]

POINT_RESOLUTIONS = (Resolution(1.0, 600.0), Resolution(10.0, 7200.0), Resolution(60.0, 86_400.0))
"""At most some 2,800 rows, 22 kB a partition, when a backlog is a day old; 600 rows when there is none."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """When samples arrived, as arrays: each in (after_s, before_s], `at_s` the best guess in between.

    `after_s` is -inf for a sample older than every point, `before_s` +inf for one that was not seen yet.
    """

    after_s: Times
    before_s: Times
    at_s: Times


class EndPoints:
    """Rows of (time, end offsets), oldest first; columns are partitions.

    >>> points = EndPoints()
    >>> for at_s, end in ((0.0, 100), (1.0, 110), (2.0, 130)):
    ...     points.add(at_s, np.array([end]))
    >>> arrival = points.arrival(np.array([0]), np.array([120]))
    >>> arrival.after_s, arrival.before_s
    (array([1.]), array([2.]))
    """

    def __init__(self, resolutions: Sequence[Resolution] = POINT_RESOLUTIONS) -> None:
        self._resolutions = tuple(resolutions)
        self._times: list[float] = []
        self._ends = np.empty((64, 0), dtype=np.int64)
        """Row i belongs to `_times[i]`; rows past the last time are room to grow."""
        self._hints: dict[int, list[tuple[int, float, float]]] = {}
        """By partition, (offset, after, before) as Kafka told."""

    def __len__(self) -> int:
        return len(self._times)

    @property
    def partitions(self) -> int:
        return int(self._ends.shape[1])

    def grow(self, partitions: int) -> None:
        """Make room for new partitions, which were empty until now."""
        if partitions <= self.partitions:
            return
        wider = np.zeros((len(self._ends), partitions), dtype=np.int64)
        wider[:, : self.partitions] = self._ends
        self._ends = wider

    def add(self, at_s: float, ends: Offsets) -> None:
        """The end of every partition at `at_s`, later than all before. Ends never shrink: see `forget`."""
        self.grow(len(ends))
        self._thin(at_s)
        if len(self._times) == len(self._ends):
            self._ends = np.vstack([self._ends, np.empty_like(self._ends)])
        self._ends[len(self._times)] = ends
        self._times.append(at_s)

    def redraw(self, partition: int, since_s: float, since_end: int, at_s: float, end: int) -> None:
        """Make the ends of a partition rise evenly from (since_s, since_end) to (at_s, end).

        For rows taken while the partition could not be asked: they repeat its last
        end, and would date everything that came meanwhile to the moment of its return.
        """
        first = bisect.bisect_right(self._times, since_s)
        last = bisect.bisect_left(self._times, at_s)
        share = (np.array(self._times[first:last]) - since_s) / (at_s - since_s)
        self._ends[first:last, partition] = since_end + np.floor(share * (end - since_end)).astype(np.int64)

    def hint(self, partition: int, offset: int, *, after_s: float, before_s: float) -> None:
        """Kafka says that this offset arrived in (after_s, before_s]."""
        bisect.insort(self._hints.setdefault(partition, []), (offset, after_s, before_s))

    def forget(self, partition: int | None = None) -> None:
        """Drop all points, or those of one partition whose offsets began anew."""
        if partition is None:
            self._times, self._hints = [], {}
            self._ends = np.empty((64, 0), dtype=np.int64)
        else:
            self._ends[: len(self._times), partition] = 0
            self._hints.pop(partition, None)

    def prune(self, wanted: Offsets, *, before_s: float) -> None:
        """Drop the rows older than `before_s` that no question about `wanted` or later offsets needs."""
        for partition, known in self._hints.items():
            first = bisect.bisect_right(known, (int(wanted[partition]), np.inf, np.inf)) - 1
            del known[: max(0, first)]
        old = bisect.bisect_left(self._times, before_s)
        if old < 64:  # copying pays when it frees much; rows would otherwise move at every poll
            return
        passed = (self._ends[:old, : len(wanted)] <= wanted).all(axis=1)
        needed = int(passed.sum()) - 1  # ends never shrink, so the rows passed come first
        if needed > 0:
            self._keep(list(range(needed, len(self._times))))

    def arrival(self, partitions: NDArray[np.intp], offsets: Offsets) -> Arrival:
        """When these offsets arrived, each in its partition."""
        rows = len(self._times)
        times = np.array([-np.inf, *self._times, np.inf])
        upper = self._first_row_beyond(partitions, offsets)
        after_s, before_s = times[upper], times[upper + 1]
        floor = np.where(upper > 0, self._ends[np.maximum(upper - 1, 0), partitions], 0)
        ceiling = np.where(
            upper < rows, self._ends[np.minimum(upper, max(rows - 1, 0)), partitions], offsets + 1
        )
        at_s = _between(after_s, before_s, offsets - floor, ceiling - floor)
        for i in np.flatnonzero(np.isin(partitions, list(self._hints))):
            after_s[i], before_s[i] = self._hinted(
                int(partitions[i]), int(offsets[i]), after_s[i], before_s[i]
            )
            middle_s = before_s[i] if np.isneginf(after_s[i]) else (after_s[i] + before_s[i]) / 2
            at_s[i] = at_s[i] if after_s[i] <= at_s[i] <= before_s[i] else middle_s
        return Arrival(after_s, before_s, at_s)

    def end_at(self, partition: int, at_s: float) -> int:
        """The end of a partition at an instant, taken to rise evenly between two points.

        Before the oldest point nothing is known: then it is zero, as if nothing had come.
        """
        row = bisect.bisect_right(self._times, at_s)
        if row == 0 or partition >= self.partitions:
            return 0
        before = int(self._ends[row - 1, partition])
        if row == len(self._times):
            return before
        share = (at_s - self._times[row - 1]) / (self._times[row] - self._times[row - 1])
        return before + int(share * (int(self._ends[row, partition]) - before))

    def reaches(self, at_s: float) -> bool:
        """Whether the points go back to this instant."""
        return bool(self._times) and self._times[0] <= at_s

    def oldest_end(self, partition: int) -> int:
        """What a partition held when the points begin; zero before any."""
        return int(self._ends[0, partition]) if self._times and partition < self.partitions else 0

    def resolution_s(self, age_s: float) -> float:
        """How far apart the points of this age are kept."""
        return next((r.step_s for r in self._resolutions if age_s <= r.keep_s), self._resolutions[-1].step_s)

    def _hinted(self, partition: int, offset: int, after_s: float, before_s: float) -> tuple[float, float]:
        for known, known_after_s, known_before_s in self._hints[partition]:
            if known <= offset and after_s < known_after_s <= before_s:
                after_s = known_after_s
            if known >= offset and after_s <= known_before_s < before_s:
                before_s = known_before_s
        return after_s, before_s

    def _first_row_beyond(self, partitions: NDArray[np.intp], offsets: Offsets) -> NDArray[np.intp]:
        """Index of the first row whose end is beyond the offset; the number of rows when none is."""
        low = np.zeros(len(partitions), dtype=np.intp)
        high = np.full(len(partitions), len(self._times), dtype=np.intp)
        while np.any(low < high):
            middle = (low + high) // 2
            beyond = self._ends[np.minimum(middle, len(self._ends) - 1), partitions] > offsets
            searching = low < high
            high = np.where(searching & beyond, middle, high)
            low = np.where(searching & ~beyond, middle + 1, low)
        return low

    def _thin(self, now_s: float) -> None:
        """Once in a while, keep one row per step of the resolution that fits its age."""
        if len(self._times) < 2 * self._resolutions[0].bins or len(self._times) % 64:
            return
        kept: list[int] = []
        last: tuple[float, int] | None = None
        for row, at_s in enumerate(self._times):
            fit = next((r for r in self._resolutions if now_s - at_s <= r.keep_s), None)
            slot = None if fit is None else (fit.step_s, int(at_s // fit.step_s))
            if slot is not None and slot != last:
                last = slot
                kept.append(row)
        self._keep(kept)

    def _keep(self, rows: list[int]) -> None:
        self._ends[: len(rows)] = self._ends[rows]
        self._times = [self._times[row] for row in rows]


def _between(after_s: Times, before_s: Times, nth: Offsets, of: Offsets) -> Times:
    """The likely instant when the nth `of` samples had come; the known end where the other is open."""
    with np.errstate(invalid="ignore"):
        evenly_s = after_s + (nth + 0.5) / np.maximum(of, 1) * (before_s - after_s)
    return np.where(np.isneginf(after_s), before_s, np.where(np.isposinf(before_s), after_s, evenly_s))
