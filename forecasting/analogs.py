"""Seasons that were like today: how they went on, weighed by how much the last hours resemble theirs.

A Saturday goes on like Saturdays, a day of rain like days of rain. Which of the last seasons is
the one to look at shows in the hours before now; a mean over all of them, or one a week ago, does not
know. For every target: the weighted mean of what followed, as a log ratio to the level of then, and how
far those seasons are apart. Beside that the path of their mean: how today has differed from it until
now, and where it goes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecasting.batch import LOOK_UNITS, PATH_BINS, SEASONS_LIKE, Batch, look_bins
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
PATH_SHARPNESS = 3.0
PATH_AFTER = 20
"""Coarse bins of the path after now: an hour and forty minutes."""


def inputs_of_analogs(grid: Grid) -> int:
    """How many numbers a row has: see `analogs_of`."""
    return 2 * len(SHARPNESS) * KINDS * len(grid.leads) + PATH_BINS + PATH_AFTER + 2


def analogs_of(batch: Batch, offset: Rates, clocks: list[Indices | int]) -> Rates:
    """(rows, inputs_of_analogs): zeros where no season is known yet.

    For each sharpness mean and spread by target; today's path less theirs, and theirs to come; the
    logarithms of how unlike today the likest season is and the usual one. `offset` is added before every
    logarithm; `clocks` are the bins by which clocks were put forward since one season ago, two, ...
    """
    backs = [_back(batch.grid, n + 1) - clocks[n] for n in range(min(SEASONS_LIKE, len(clocks)))]
    known = np.stack([batch.known >= back + look_bins(batch.grid) for back in backs])
    reached = max(int(known.any(axis=1).sum()), 1)  # seasons that no row knows cost nothing
    backs, known = backs[:reached], known[:reached]
    now, then = _shape_of(batch, offset, 0), [_shape_of(batch, offset, back) for back in backs]
    distance = np.where(known, np.stack([_distance(now, one) for one in then]), np.inf)
    levels = np.stack([level for _, level in then])
    any_known = np.asarray(known.any(axis=0))
    least = np.where(any_known, distance.min(axis=0), 0.0)
    usual = _median_of_known(distance, known)
    beyond = np.where(known, distance - least, 0.0) / (usual + 1e-9)
    futures = np.where(known[..., None], _went_on(batch, offset, backs) - levels[..., None], 0.0)
    parts = []
    for sharpness in SHARPNESS:
        weights = _weights(beyond, known, sharpness)
        mean = np.einsum("sr,srt->rt", weights, futures)
        spread = np.sqrt(np.einsum("sr,srt->rt", weights, (futures - mean) ** 2))
        parts += [mean, spread]
    path = _mean_path(batch, offset, backs, levels, _weights(beyond, known, PATH_SHARPNESS))
    today = np.log(_coarse(batch, 0, -PATH_BINS, 0) + offset[:, None]) - now[1][:, None]
    path[:, :PATH_BINS] = today - path[:, :PATH_BINS]
    apart = np.log(np.stack([np.where(any_known, least, usual), usual], axis=1) + 1e-4)
    return np.where(any_known[:, None], np.concatenate([*parts, path, apart], axis=1), 0.0)


def by_lead(analogs: Rates, leads: int) -> tuple[Rates, Rates]:
    """What `analogs_of` says of each lead (rows, leads, numbers), and what it says of the whole."""
    rows, each = len(analogs), 2 * len(SHARPNESS) * KINDS
    targets = analogs[:, : each * leads].reshape(rows, each, leads).transpose(0, 2, 1)
    return targets, analogs[:, each * leads :]


def path_of(analogs: Rates) -> tuple[Rates, Rates]:
    """Of `analogs_of`: today's path less that of the seasons like it, and theirs to come."""
    path = analogs[:, -(PATH_BINS + PATH_AFTER + 2) : -2]
    return path[:, :PATH_BINS], path[:, PATH_BINS:]


def without_path(analogs: Rates) -> Rates:
    """All the rest."""
    return np.concatenate([analogs[:, : -(PATH_BINS + PATH_AFTER + 2)], analogs[:, -2:]], axis=1)


def _back(grid: Grid, seasons: int) -> int:
    """Bins back to a season whose targets have all come: a short one is passed over in whole seasons."""
    return grid.season * (seasons - 1 + max(1, -(-(grid.reach + 1) // grid.season)))


def _weights(beyond: Rates, known: NDArray[np.bool_], sharpness: float) -> Rates:
    """(seasons, rows): how much each counts."""
    weights = np.exp(-sharpness * beyond) * known
    return np.asarray(weights / np.maximum(weights.sum(axis=0), 1e-12))


def _distance(now: tuple[Rates, Rates], then: tuple[Rates, Rates]) -> Rates:
    """By row: how unlike the two are, shape and level."""
    shape: Rates = ((then[0] - now[0]) ** 2).mean(axis=1)
    return shape + LEVEL_SHARE * (then[1] - now[1]) ** 2


def _went_on(batch: Batch, offset: Rates, backs: list[Indices | int]) -> Rates:
    """(seasons, rows, targets): logarithms of the rates and of the peaks that followed, lead by lead."""
    grid, last = batch.grid, batch.rates.shape[1] - 1
    around, leads = min(grid.bins(15) // 2, 1), [int(lead) for lead in grid.leads]
    tops = highest_along(batch.rates, grid.width)
    rates = [[batch.mean(lead - around - back, lead + around + 1 - back) for lead in leads] for back in backs]
    peaks = [
        [tops[batch.row, np.clip(batch.end - back + lead + grid.width - 1, 0, last)] for lead in leads]
        for back in backs
    ]
    came = np.concatenate([np.array(rates), np.array(peaks)], axis=1)  # (seasons, targets, rows)
    return np.log(came.transpose(0, 2, 1) + offset[:, None])


def _mean_path(
    batch: Batch, offset: Rates, backs: list[Indices | int], levels: Rates, weights: Rates
) -> Rates:
    """(rows, PATH_BINS + PATH_AFTER): the mean of the seasons around this time of theirs, as log ratios."""
    path = np.zeros((len(batch), PATH_BINS + PATH_AFTER))
    for back, level, weight in zip(backs, levels, weights, strict=True):
        means = _coarse(batch, back, -PATH_BINS, PATH_AFTER)
        path += weight[:, None] * (np.log(means + offset[:, None]) - level[:, None])
    return path


def _coarse(batch: Batch, back: Indices | int, first: int, last: int) -> Rates:
    """Means of the coarse bins [first, last) from `back` bins ago; what is still to come repeats nothing."""
    coarse = batch.grid.bins(COARSE_UNITS)
    edges = (batch.end - back)[:, None] + coarse * np.arange(first, last + 1)[None, :]
    edges = np.clip(edges, 0, batch.end[:, None])  # a season shorter than the path would read what is to come
    sums = batch.sums[batch.row[:, None], edges]
    return np.asarray(np.maximum(np.diff(sums, axis=1), 0.0) / np.maximum(np.diff(edges, axis=1), 1))


def _shape_of(batch: Batch, offset: Rates, back: Indices | int) -> tuple[Rates, Rates]:
    """The hours up to `back` bins ago as log ratios to the level of then, and that level's logarithm."""
    grid = batch.grid
    coarse = grid.bins(COARSE_UNITS)
    count = max(2, grid.bins(LOOK_UNITS) // coarse)
    level = np.log(batch.mean(-grid.bins(30) - back, -back) + offset)
    return np.log(_coarse(batch, back, -count, 0) + offset[:, None]) - level[:, None], level


def _median_of_known(distance: Rates, known: NDArray[np.bool_]) -> Rates:
    """By row; 1 where none is known."""
    ordered = np.sort(distance, axis=0)  # what is not known is infinite and goes last
    count = known.sum(axis=0)
    rows = np.arange(distance.shape[1])
    low, high = ordered[np.maximum(count - 1, 0) // 2, rows], ordered[count // 2, rows]
    return np.where(count > 0, 0.5 * (low + high), 1.0)
