"""Arrival rates of the past on several grids at once, bounded, gaps explicit. Pure.

An interval between two polls and the number of samples that arrived in it go in;
mean rates on grids of 1 s, 10 s and 1 min (or others) come out. A bin that was
measured for less than half its width is a gap, NaN: unknown traffic is not zero traffic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.history import TrafficHistory

COVERED_SHARE_MIN = 0.5
"""A bin seen for less than this share of its width tells too little to be called measured."""

HOUR_S, DAY_S, WEEK_S = 3600.0, 86_400.0, 604_800.0


@dataclass(frozen=True, slots=True)
class Resolution:
    """A grid of bins `step_s` wide, kept for `keep_s`."""

    step_s: float
    keep_s: float

    def __post_init__(self) -> None:
        if not (self.step_s > 0 and math.isfinite(self.step_s) and self.keep_s >= self.step_s):
            raise ValueError(f"{self}: the step must be positive, and at least one step must be kept")

    @property
    def bins(self) -> int:
        """How many bins are kept."""
        return math.ceil(self.keep_s / self.step_s)


RESOLUTIONS = (Resolution(1.0, HOUR_S), Resolution(10.0, DAY_S), Resolution(60.0, 2 * WEEK_S))
"""130 kB of memory a topic; 90 kB of them are the two weeks of minutes."""


class RateGrid:
    """Mean rates at one resolution: a ring of closed bins and the one that is still open.

    >>> grid = RateGrid(Resolution(10.0, 60.0))
    >>> grid.add(0.0, 15.0, 30.0)
    >>> grid.add(15.0, 25.0, 50.0)
    >>> grid.history().rates
    array([2. , 3.5])
    """

    def __init__(self, resolution: Resolution) -> None:
        self.resolution = resolution
        self._rates = np.full(resolution.bins, np.nan, dtype=np.float32)
        self._open: int | None = None
        """Index of the open bin since the epoch; all bins before it are closed."""
        self._count = 0.0
        self._covered_s = 0.0

    @property
    def open_bin(self) -> int | None:
        """Index of the bin that is still being measured; None before anything was."""
        return self._open

    def add(self, from_s: float, until_s: float, count: float) -> None:
        """`count` samples arrived, evenly, between these instants.

        A clock that was set back takes the bins it covers again: its new account
        replaces the old one, instead of being added to it. One that merely jittered
        across the edge of a bin loses that jitter, not the bin.
        """
        step_s = self.resolution.step_s
        first, last = math.floor(from_s / step_s), math.floor(until_s / step_s)
        if self._open is not None and last < self._open:
            if last == self._open - 1:
                return
            self._go_to(first)
        per_s = count / (until_s - from_s)
        first = first if self._open is None else max(first, self._open)
        for index in range(max(first, last - self.resolution.bins), last + 1):
            self._go_to(index)
            covered_s = min(until_s, (index + 1) * step_s) - max(from_s, index * step_s)
            self._covered_s += covered_s
            self._count += per_s * covered_s

    def skip_to(self, at_s: float) -> None:
        """Nothing is known of the time up to `at_s`: close what is open, leave a gap."""
        index = math.floor(at_s / self.resolution.step_s)
        if self._open is None or index != self._open - 1:  # one bin back is jitter, as above
            self._go_to(index)

    def put(self, first_bin: int, rates: NDArray[np.floating]) -> None:
        """Take these as the closed bins from `first_bin` on: a past known from elsewhere.

        They replace gaps only; what was measured here stays.
        """
        end = first_bin + len(rates)
        if self._open is None or end > self._open:
            self._go_to(end)
        assert self._open is not None  # noqa: S101 - the line above opened it
        index = np.arange(max(first_bin, self._open - self.resolution.bins), end)
        slots = index % self.resolution.bins
        given = rates[index - first_bin].astype(np.float32)
        self._rates[slots] = np.where(np.isnan(self._rates[slots]), given, self._rates[slots])

    def closed(self, from_bin: int) -> tuple[int, NDArray[np.float32]]:
        """The closed bins from `from_bin` on, or from the oldest kept: the first one's index, the rates."""
        if self._open is None:
            return from_bin, np.empty(0, dtype=np.float32)
        first = min(max(from_bin, self._open - self.resolution.bins), self._open)
        return first, self._rates[np.arange(first, self._open) % self.resolution.bins]

    def total(self) -> float:
        """How many samples all bins hold, the open one included; gaps hold none."""
        return float(np.nansum(self._rates, dtype=np.float64)) * self.resolution.step_s + self._count

    def history(self) -> TrafficHistory:
        """The closed bins, from the first that was measured to the last. Empty when none was."""
        step_s = self.resolution.step_s
        first, rates = self.closed(-(2**62))
        known = np.flatnonzero(~np.isnan(rates))
        if len(known) == 0:
            start = 0 if self._open is None else self._open
            return TrafficHistory(start_s=start * step_s, step_s=step_s, rates=np.empty(0))
        oldest = int(known[0])
        return TrafficHistory(
            start_s=(first + oldest) * step_s, step_s=step_s, rates=rates[oldest:].astype(np.float64)
        )

    def _go_to(self, index: int) -> None:
        if self._open == index:
            return
        if self._open is not None and index > self._open:
            enough = self._covered_s >= COVERED_SHARE_MIN * self.resolution.step_s
            self._rates[self._open % self.resolution.bins] = (
                self._count / self._covered_s if enough else np.nan
            )
            gap = np.arange(max(self._open + 1, index - self.resolution.bins), index)
            self._rates[gap % self.resolution.bins] = np.nan
        elif self._open is not None:
            back = np.arange(index, min(self._open, index + self.resolution.bins))
            self._rates[back % self.resolution.bins] = np.nan
        self._open, self._count, self._covered_s = index, 0.0, 0.0


class RateHistory:
    """The same past at every resolution. `history()` is the one that forecasts are made from."""

    def __init__(self, *, step_s: float = 60.0, resolutions: Sequence[Resolution] = RESOLUTIONS) -> None:
        self.step_s = step_s
        longest_s = max((kept.keep_s for kept in resolutions), default=2 * WEEK_S)
        wanted = {kept.step_s: kept for kept in resolutions}
        # A step of the caller's own, as in a sped-up demo, is kept for as many bins as minutes are.
        wanted.setdefault(step_s, Resolution(step_s, longest_s / 60.0 * step_s))
        self.grids = {kept.step_s: RateGrid(kept) for kept in wanted.values()}

    def add(self, from_s: float, until_s: float, count: float) -> None:
        """`count` samples arrived between these instants."""
        for grid in self.grids.values():
            grid.add(from_s, until_s, count)

    def skip_to(self, at_s: float) -> None:
        """Nothing is known of the time up to `at_s`."""
        for grid in self.grids.values():
            grid.skip_to(at_s)

    def seed(self, past: TrafficHistory) -> None:
        """Take a past known from elsewhere into every grid that is not finer than it.

        A coarser grid gets the mean of the bins that fall into its own. Of finer
        ones only the forecasts' own is filled, each rate held over its width: a
        week of ten-minute means shows the day and the week, and that is what it is for.
        """
        for step_s, grid in self.grids.items():
            if step_s >= past.step_s * (1 - 1e-6):
                grid.put(*regridded(past, step_s))
            elif step_s == self.step_s:
                grid.put(*regridded(stretched(past, step_s), step_s))

    def history(self, step_s: float | None = None) -> TrafficHistory:
        """The past at `step_s`, which must be one of the grids; by default the forecasts' own."""
        return self.grids[self.step_s if step_s is None else step_s].history()


def stretched(past: TrafficHistory, step_s: float) -> TrafficHistory:
    """The same rates on a finer grid, each held over its width.

    >>> stretched(TrafficHistory(start_s=0.0, step_s=20.0, rates=np.array([1.0, 3.0])), 10.0).rates
    array([1., 1., 3., 3.])
    """
    bins = math.floor(past.span_s / step_s + 1e-9)
    row = np.floor((np.arange(bins) + 0.5) * step_s / past.step_s).astype(np.int64)
    return TrafficHistory(start_s=past.start_s, step_s=step_s, rates=past.rates[row])


def regridded(past: TrafficHistory, step_s: float) -> tuple[int, NDArray[np.float64]]:
    """The past on the grid of `step_s` that starts at the epoch: index of the first bin, and mean rates.

    A bin is the mean of those measured bins whose middle lies in it; NaN when none does.

    >>> past = TrafficHistory(start_s=120.0, step_s=30.0, rates=np.array([1.0, 3.0, np.nan, 5.0]))
    >>> regridded(past, 60.0)
    (2, array([2., 5.]))
    """
    if len(past.rates) == 0:
        return math.floor(past.start_s / step_s), np.empty(0)
    middles = past.start_s + (np.arange(len(past.rates)) + 0.5) * past.step_s
    index = np.floor(middles / step_s).astype(np.int64)
    first, bins = int(index[0]), int(index[-1] - index[0]) + 1
    known = ~np.isnan(past.rates)
    count = np.bincount(index[known] - first, minlength=bins)
    total = np.bincount(index[known] - first, weights=past.rates[known], minlength=bins)
    rates = np.full(bins, np.nan)
    np.divide(total, count, out=rates, where=count > 0)
    return first, rates
