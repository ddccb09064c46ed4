"""The history in bins that suit the lead time: a wait of hours is not planned in minutes."""

from __future__ import annotations

import math

import numpy as np

from estimator.planner.timing import AHEAD_MAX, Timing
from forecasting.history import TrafficHistory


def bins_together(timing: Timing) -> int:
    """How many bins to take for one, so that the horizon has no more of them than are forecast.

    >>> bins_together(Timing(180.0, 60.0, 60.0)), bins_together(Timing(4 * 3600.0, 60.0, 60.0))
    (1, 5)
    """
    bins = (timing.horizon_s - timing.bin_s) / timing.bin_s
    return max(1, math.ceil(bins / (AHEAD_MAX - 3)))  # one of them is the bin in which the next plan is made


def coarsened(history: TrafficHistory, many: int) -> TrafficHistory:
    """Means of `many` bins each, on a grid that stays where it is as the history grows.

    The last bins that fill no coarse one are left out; a coarse bin of which nothing is known is a gap.

    >>> past = TrafficHistory(start_s=60.0, step_s=60.0, rates=np.array([9.0, 1.0, 3.0, np.nan, 5.0, 7.0]))
    >>> coarse = coarsened(past, 2)
    >>> coarse.start_s, coarse.rates.tolist()
    (120.0, [2.0, 5.0])
    """
    step_s = many * history.step_s
    skip = round((math.ceil(history.start_s / step_s - 1e-9) * step_s - history.start_s) / history.step_s)
    whole = max(len(history.rates) - skip, 0) // many
    blocks = history.rates[skip : skip + whole * many].reshape(whole, many)
    known = ~np.isnan(blocks)
    counts = known.sum(axis=1)
    sums = np.where(known, blocks, 0.0).sum(axis=1)
    rates = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return TrafficHistory(history.start_s + skip * history.step_s, step_s, rates)
