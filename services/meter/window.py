"""Arrival rates over a short window, per partition, with some answers missing. Pure."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from services.meter.poll import UNKNOWN, Offsets

Rates = NDArray[np.float64]


class ArrivalWindow:
    """The ends of the last polls, as far back as the window reaches.

    A partition's rate runs from its newest end at or before the start of the
    window to its newest end, so one that was away for a while is averaged over
    that while: its return is not a burst.

    >>> window = ArrivalWindow(window_s=2.0)
    >>> for at_s, ends in ((0.0, [5, 0]), (1.0, [7, UNKNOWN]), (2.0, [9, UNKNOWN]), (3.0, [11, 30])):
    ...     window.add(at_s, np.array(ends))
    >>> window.rates()
    array([ 2., 10.])
    """

    def __init__(self, *, window_s: float) -> None:
        self._window_s = window_s
        self._rows: deque[tuple[float, Offsets]] = deque()
        self._base, self._base_at_s = np.empty(0, dtype=np.int64), np.empty(0)
        """The newest known end that has left the rows, and when that was."""

    def grow(self, partitions: int, *, begun_s: float | None) -> None:
        """Make room for new partitions; `begun_s` is a time at which they were not there yet.

        With it, all that they hold came since. Without it, they may be old: their rates take two polls.
        """
        more = partitions - len(self._base)
        base, base_at_s = (UNKNOWN, np.nan) if begun_s is None else (0, begun_s)
        self._base = np.append(self._base, np.full(more, base, dtype=np.int64))
        self._base_at_s = np.append(self._base_at_s, np.full(more, base_at_s))
        missing = np.full(more, UNKNOWN, dtype=np.int64)
        self._rows = deque((at_s, np.append(ends, missing)) for at_s, ends in self._rows)

    def add(self, at_s: float, ends: Offsets) -> None:
        """The ends at `at_s`, UNKNOWN where they could not be asked for."""
        if len(ends) > len(self._base):
            self.grow(len(ends), begun_s=None)
        self._rows.append((at_s, ends))
        while len(self._rows) > 2 and self._rows[1][0] <= at_s - self._window_s:
            gone_at_s, gone = self._rows.popleft()
            known = gone != UNKNOWN
            self._base[known], self._base_at_s[known] = gone[known], gone_at_s

    def restart(self, partitions: NDArray[np.bool_]) -> None:
        """Forget the ends of these partitions but for the newest: their offsets began anew."""
        self._base[partitions] = UNKNOWN
        for _, ends in list(self._rows)[:-1]:
            ends[partitions] = UNKNOWN

    def rates(self) -> Rates:
        """Samples a second; NaN for a partition whose newest or only earlier end is not known."""
        rates = np.full(len(self._base), np.nan)
        if not self._rows:
            return rates
        now_s, now = self._rows[-1]
        since, since_s = self._since()
        told = (now != UNKNOWN) & (since != UNKNOWN) & (since_s < now_s)
        rates[told] = np.maximum(now[told] - since[told], 0) / (now_s - since_s[told])
        return rates

    def _since(self) -> tuple[Offsets, Rates]:
        """For every partition the end to count from, and its time."""
        since, since_s = self._base, self._base_at_s
        earlier = list(self._rows)[:-1]
        if earlier:  # newer than what has left, and still at or before the start of the window
            known = earlier[0][1] != UNKNOWN
            since, since_s = np.where(known, earlier[0][1], since), np.where(known, earlier[0][0], since_s)
        for at_s, ends in earlier[1:]:
            first = (since == UNKNOWN) & (ends != UNKNOWN)
            if not first.any():
                continue
            since, since_s = np.where(first, ends, since), np.where(first, at_s, since_s)
        return since, since_s
