"""Seasons that were like today: how they went on, weighed by how much the last hours resemble theirs.

A Saturday goes on like Saturdays, a day of rain like days of rain. Which of the last seasons is
the one to look at shows in the hours before now; a mean over all of them, or one a week ago, does not
know. For every target: the weighted mean of what followed, as a log ratio to the level of then, and how
far those seasons are apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecasting.batch import LOOK_UNITS, SEASONS_BACK, Batch
from forecasting.grid import KINDS, Grid
from forecasting.history import Rates
from forecasting.residuals import Indices
from forecasting.trailing import highest_along

COARSE_UNITS = 5
"""Likeness is judged by means over this long: shorter ones are noise."""
LEVEL_SHARE = 0.05
"""What another level counts beside another shape: a busy Monday is still a Monday."""
SHARPNESS = (2.0, 4.0)
"""A season that is unlike today by the usual distance more than the likest one counts e to minus this."""


def inputs_of_analogs(grid: Grid) -> int:
    """How many numbers a row has: mean and spread by target for each sharpness, and two distances."""
    return 2 * len(SHARPNESS) * KINDS * len(grid.leads) + 2


def analogs_of(batch: Batch, offset: Rates, clocks: list[Indices | int]) -> Rates:
    """(rows, inputs_of_analogs): zeros where no season is known yet.

    `offset` is added before every logarithm; `clocks` are the bins by which clocks were put forward since
    one season ago, two, ...
    """
    seasons = [_one_season(batch, offset, _back(batch.grid, n + 1) - clocks[n]) for n in range(SEASONS_BACK)]
    distance = np.stack([season[0] for season in seasons])
    futures = np.stack([season[1] for season in seasons])  # (seasons, rows, targets)
    known = np.isfinite(distance)
    any_known = np.asarray(known.any(axis=0))
    least = np.where(any_known, distance.min(axis=0), 0.0)
    usual = _median_of_known(distance, known)
    parts = []
    for sharpness in SHARPNESS:
        beyond = np.where(known, distance - least, 0.0) / (usual + 1e-9)
        weights = np.exp(-sharpness * beyond) * known
        weights /= np.maximum(weights.sum(axis=0), 1e-12)
        mean = np.einsum("sr,srt->rt", weights, futures)
        spread = np.sqrt(np.einsum("sr,srt->rt", weights, (futures - mean) ** 2))
        parts += [mean, spread]
    apart = np.log(np.stack([np.where(any_known, least, usual), usual], axis=1) + 1e-4)
    return np.where(any_known[:, None], np.concatenate([*parts, apart], axis=1), 0.0)


def _back(grid: Grid, seasons: int) -> int:
    """Bins back to a season whose targets have all come: a short one is passed over in whole seasons."""
    return grid.season * (seasons - 1 + max(1, -(-(grid.reach + 1) // grid.season)))


def _one_season(batch: Batch, offset: Rates, back: Indices | int) -> tuple[Rates, Rates]:
    """By row: how unlike today it was up to then (infinite where not known), and how it went on."""
    grid = batch.grid
    shape, level = _shape_of(batch, offset, 0)
    then_shape, then = _shape_of(batch, offset, back)
    unlike = ((then_shape - shape) ** 2).mean(axis=1) + LEVEL_SHARE * (then - level) ** 2
    around = min(grid.bins(15) // 2, 1)
    leads = [int(lead) for lead in grid.leads]
    rates = [batch.mean(lead - around - back, lead + around + 1 - back) for lead in leads]
    tops = highest_along(batch.rates, grid.width)
    last = batch.rates.shape[1] - 1
    peaks = [tops[batch.row, np.clip(batch.end - back + lead + grid.width - 1, 0, last)] for lead in leads]
    futures = np.log(np.stack([*rates, *peaks], axis=1) + offset[:, None]) - then[:, None]
    known = batch.known >= back + grid.bins(LOOK_UNITS)
    return np.where(known, unlike, np.inf), np.where(known[:, None], futures, 0.0)


def _shape_of(batch: Batch, offset: Rates, back: Indices | int) -> tuple[Rates, Rates]:
    """The hours up to `back` bins ago as log ratios to the level of then, and that level's logarithm."""
    grid = batch.grid
    coarse = grid.bins(COARSE_UNITS)
    count = max(2, grid.bins(LOOK_UNITS) // coarse)
    edges = (batch.end - back)[:, None] + coarse * np.arange(-count, 1)[None, :]
    sums = batch.sums[batch.row[:, None], np.maximum(edges, 0)]
    means = np.maximum(np.diff(sums, axis=1), 0.0) / coarse
    level = np.log(batch.mean(-grid.bins(30) - back, -back) + offset)
    return np.log(means + offset[:, None]) - level[:, None], level


def _median_of_known(distance: Rates, known: NDArray[np.bool_]) -> Rates:
    """By row; 1 where none is known."""
    ordered = np.sort(distance, axis=0)  # what is not known is infinite and goes last
    count = known.sum(axis=0)
    rows = np.arange(distance.shape[1])
    low, high = ordered[np.maximum(count - 1, 0) // 2, rows], ordered[count // 2, rows]
    return np.where(count > 0, 0.5 * (low + high), 1.0)
