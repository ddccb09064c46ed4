"""Honest spread for light models: quantiles of what they got wrong before, at the same lead.

A model tells its point forecasts for past origins; their scaled residuals give
the quantiles of today's. Only a few leads are measured and the rest lie between
them, so a week of minutes costs some hundred microseconds.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from forecasting.forecast import LEVELS
from forecasting.history import Rates

Indices = NDArray[np.int64]

ORIGINS = 240
"""Past origins asked: every six minutes of a day, so that all hours of the rhythm have a say."""
LEADS = 6
RESIDUALS_MIN = 20
"""With fewer residuals than this the prior has a say: a 0.95 quantile of three values is no quantile."""
PRIOR_SPREAD = np.array([-0.4, 0.0, 0.6, 0.9, 1.6])
"""Quantiles of relative error to expect of traffic never seen before."""

_LEVELS = np.array(LEVELS)[:, None]


@lru_cache(maxsize=64)
def leads_to_measure(steps: int) -> Indices:
    """A few leads in bins from 1 to `steps`, close together where the error grows fastest.

    >>> leads_to_measure(60).tolist()
    [1, 2, 5, 12, 26, 60]
    """
    leads = np.unique(np.round(np.geomspace(1, steps, LEADS)).astype(np.int64))
    leads.flags.writeable = False
    return leads


def past_origins(first: int, last: int) -> Indices:
    """Up to `ORIGINS` evenly spaced bin counts in [first, last]; empty when there are none."""
    if last < first:
        return np.empty(0, dtype=np.int64)
    # Evenly spaced whole numbers, at most ORIGINS of them, so all are different.
    return np.linspace(first, last, min(ORIGINS, last - first + 1)).astype(np.int64)


def came_after(rates: Rates, origins: Indices, ahead: Indices) -> Rates:
    """The rate `ahead` bins on from each origin (ahead, origins); NaN where that is still to come."""
    return came_at(rates, origins[None, :] + ahead[:, None])


def came_at(rates: Rates, target: Indices) -> Rates:
    """The rate of each bin of `target`; NaN where that is still to come."""
    came: Rates = np.where(target < len(rates), rates[np.minimum(target, len(rates) - 1)], np.nan)
    return came


def highest_from(rates: Rates, width: int) -> Rates:
    """The highest of bins i .. i + width - 1 for every i; NaN where the last of them is still to come.

    >>> highest_from(np.array([1.0, 3.0, 2.0, 0.0]), 2)
    array([ 3.,  3.,  2., nan])
    """
    highest: Rates = rates.copy()
    covered = 1
    while covered < width:  # doubling: a hundred bins take seven passes
        shift = min(covered, width - covered)
        # What was there is read before it is written over: numpy sees that the two overlap.
        np.fmax(highest[:-shift], highest[shift:], out=highest[:-shift])
        covered += shift
    if width > 1:
        highest[-(width - 1) :] = np.nan
    return highest


def scale_of(point: Rates, level: float) -> Rates:
    """What an error at rate `point` is measured in.

    Errors grow with traffic, but less than in proportion (counting noise grows with the
    root); and a quiet minute must not divide by zero. `level` is the usual rate.
    """
    scale: Rates = np.sqrt(np.maximum(point, 0.0) * level) + 0.1 * level
    return np.maximum(scale, 1e-300)


def spread(residuals: Rates, leads: Indices, steps: int) -> Rates:
    """Quantiles (LEVELS, steps) from scaled residuals (leads, origins); NaN marks an unknown one.

    Leads in between are interpolated. Where hardly any residual is known, the prior
    fills up, so a model that has never been wrong yet is not believed to be always right.
    """
    ordered = np.full((len(leads), residuals.shape[1] + 1), np.nan)  # one more, so that no row is empty
    ordered[:, :-1] = residuals
    ordered.sort(axis=1)  # NaN goes last
    known = np.count_nonzero(~np.isnan(ordered), axis=1)
    top = np.maximum(known - 1, 0)
    # One rank higher than the plain quantile, as conformal prediction has it: n values leave n+1 gaps.
    position = np.clip(_LEVELS * (known + 1) - 1, 0, top)
    below = position.astype(np.int64)
    rows = np.arange(len(leads))
    low, high = ordered[rows, below], ordered[rows, np.minimum(below + 1, top)]
    measured = np.where(known > 0, low + (high - low) * (position - below), 0.0)
    trust = np.minimum(known / RESIDUALS_MIN, 1.0)
    table = trust * measured + (1 - trust) * PRIOR_SPREAD[:, None]
    at = np.arange(1, steps + 1)
    return np.stack([np.interp(at, leads, row) for row in table])


def paths_around(point: Rates, offsets: Rates) -> Rates:
    """Quantile paths from a point path and offsets by level: in order, never negative."""
    return np.maximum.accumulate(np.maximum(point + offsets, 0.0), axis=0)
