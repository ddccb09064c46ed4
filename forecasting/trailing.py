"""Means and maxima over the bins up to each one, gaps left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecasting.history import Rates


def trailing_means(rates: Rates, window: int) -> Rates:
    """`means[t]` is the mean of the rates measured in the `window` bins before bin t; NaN when none was.

    >>> trailing_means(np.array([1.0, 3.0, np.nan]), 2)
    array([nan,  1.,  2.,  3.])
    """
    held = ~np.isnan(rates)
    sums = np.concatenate([[0.0], np.cumsum(np.where(held, rates, 0.0))])
    counts = np.concatenate([[0], np.cumsum(held)])
    first = np.maximum(np.arange(len(rates) + 1) - window, 0)
    count = counts - counts[first]
    means: Rates = np.full(len(rates) + 1, np.nan)
    np.divide(sums - sums[first], count, out=means, where=count > 0)
    return np.maximum(means, 0.0)  # differences of sums may round to just below zero


def trailing_means_at(rates: Rates, window: int, at: NDArray[np.int64]) -> Rates:
    """`trailing_means` at some bins only, for less.

    >>> trailing_means_at(np.array([1.0, 3.0, np.nan]), 2, np.array([2, 0]))
    array([ 2., nan])
    """
    held = ~np.isnan(rates)
    sums = np.zeros(len(rates) + 1)
    np.cumsum(np.where(held, rates, 0.0), out=sums[1:])
    first = np.maximum(at - window, 0)
    if held.all():
        count = at - first
    else:
        counts = np.zeros(len(rates) + 1, dtype=np.int64)
        np.cumsum(held, out=counts[1:])
        count = counts[at] - counts[first]
    means: Rates = np.full(at.shape, np.nan)
    np.divide(sums[at] - sums[first], count, out=means, where=count > 0)
    return np.maximum(means, 0.0)  # differences of sums may round to just below zero


def trailing_highest(rates: Rates, window: int) -> Rates:
    """`highest[i]` is the highest rate measured in bins i - window + 1 .. i; NaN when none was.

    >>> trailing_highest(np.array([5.0, 3.0, np.nan, 4.0]), 2)
    array([5., 5., 3., 4.])
    """
    best, covered = rates, 1
    while covered < window:
        shift = min(covered, window - covered)
        before = np.full_like(best, np.nan)
        before[shift:] = best[:-shift] if shift < len(best) else best[:0]
        best = np.fmax(best, before)
        covered += shift
    return best


def highest_along(rates: Rates, window: int) -> Rates:
    """`trailing_highest` for rows of series without gaps."""
    best, covered = rates, 1
    while covered < window:
        shift = min(covered, window - covered)
        before = best.copy()
        before[:, shift:] = best[:, :-shift] if shift < best.shape[1] else best[:, :0]
        best = np.maximum(best, before)
        covered += shift
    return best
