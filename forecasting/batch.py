"""Many pasts at once: the last bins of every topic of a fleet, or one past at many origins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.cleaning import calm_rates, filled
from forecasting.grid import Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.residuals import Indices
from forecasting.trailing import highest_along

SEASONS_BACK = 7
"""A week of days is looked at day by day."""
SEASONS_LIKE = 28
"""Seasons among which those like today are sought, as far as the past reaches: four of each weekday."""
LOOK_UNITS = 180
"""How much of the past of each season is held against that of now."""
PATH_BINS = 36
"""The same in coarse bins of five units, of which a grid with long bins has fewer an hour."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows of (series, end): what had been seen of a series when its bin `end` had not begun yet.

    Means come from running sums, so that a row costs the same whatever its length.
    """

    grid: Grid
    rates: Rates
    """(series, bins), without gaps."""
    sums: Rates
    """(series, bins + 1): running sums of the rates."""
    moves: Rates
    """(series, bins + 1): running sums of the absolute changes."""
    first: Indices
    """By series: the first bin that was measured."""
    starts_s: NDArray[np.float64]
    """By series: the time of bin 0."""
    row: Indices
    end: Indices

    def __len__(self) -> int:
        return len(self.row)

    @property
    def known(self) -> Indices:
        """By row: bins since the first measurement."""
        return self.end - self.first[self.row]

    @property
    def ends_s(self) -> NDArray[np.float64]:
        """By row: when the last bin seen closed."""
        ends: NDArray[np.float64] = self.starts_s[self.row] + self.end * self.grid.step_s
        return ends

    def mean(self, lo: Indices | int, hi: Indices | int) -> Rates:
        """Mean over bins [end + lo, end + hi), cut off at the first bin known."""
        top = np.maximum(self.end + hi, 1)
        low = np.minimum(np.maximum(self.end + lo, self.first[self.row]), top - 1)
        low = np.maximum(low, 0)
        total = self.sums[self.row, top] - self.sums[self.row, low]
        return np.asarray(np.maximum(total, 0.0) / (top - low))

    def roughness(self, bins: int) -> Rates:
        """Mean absolute change from bin to bin over the last `bins`."""
        low = np.minimum(np.maximum(self.end - bins, self.first[self.row] + 1), self.end)
        total = self.moves[self.row, self.end] - self.moves[self.row, low]
        return np.asarray(np.maximum(total, 0.0) / np.maximum(self.end - low, 1))

    def highest(self, bins: int) -> Rates:
        """Highest rate of the last `bins`."""
        if len(self.row) == len(self.rates) and (self.end == self.rates.shape[1]).all():
            return np.asarray(self.rates[:, -bins:].max(axis=1))
        return np.asarray(highest_along(self.rates, bins)[self.row, self.end - 1])

    def select(self, rows: Indices | slice) -> Batch:
        """Some of the rows."""
        return Batch(
            self.grid,
            self.rates,
            self.sums,
            self.moves,
            self.first,
            self.starts_s,
            self.row[rows],
            self.end[rows],
        )


def look_bins(grid: Grid) -> int:
    """Bins before an origin, or before the same time of another season, that likeness is judged by."""
    return max(grid.bins(LOOK_UNITS), PATH_BINS * grid.bins(5))


def batch_of(grid: Grid, histories: Sequence[TrafficHistory]) -> Batch:
    """The newest row of every history. All must have the grid's step."""
    bins = SEASONS_LIKE * grid.season + look_bins(grid)
    series = [_readable(history.rates[-bins:], grid) for history in histories]
    width = max((len(rates) for rates, _ in series), default=0)
    rates = np.zeros((len(series), max(width, 1)))
    first = np.full(len(series), rates.shape[1], dtype=np.int64)
    for i, (values, begins) in enumerate(series):
        if len(values):
            rates[i, -len(values) :] = values
        first[i] = rates.shape[1] - len(values) + begins
    starts_s = np.array([history.end_s for history in histories]) - rates.shape[1] * grid.step_s
    rows = np.arange(len(series))
    end = np.full(len(series), rates.shape[1])
    return _summed(grid, rates, first=first, starts_s=starts_s, row=rows, end=end)


def batch_at(grid: Grid, history: TrafficHistory, origins: Indices) -> Batch:
    """One history at many origins: row i has seen the bins before `origins[i]`.

    Filling looks back only, so what a row sees does not depend on what came after it.
    """
    rates, first = _readable(history.rates, grid)
    return _summed(
        grid,
        rates[None, :],
        first=np.array([first]),
        starts_s=np.array([history.start_s]),
        row=np.zeros(len(origins), dtype=np.int64),
        end=np.asarray(origins, dtype=np.int64),
    )


def _readable(rates: Rates, grid: Grid) -> tuple[Rates, int]:
    return filled(calm_rates(rates, grid), season=grid.season, hold=grid.bins(60))


def _summed(
    grid: Grid, rates: Rates, *, first: Indices, starts_s: NDArray[np.float64], row: Indices, end: Indices
) -> Batch:
    zero = np.zeros((len(rates), 1))
    sums = np.hstack([zero, np.cumsum(rates, axis=1)])
    moves = np.hstack([zero, zero, np.cumsum(np.abs(np.diff(rates, axis=1)), axis=1)])
    return Batch(grid, rates, sums, moves, first, starts_s, row, end)
