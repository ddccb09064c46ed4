"""What is forecast: at which leads, over which intervals, in which units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forecasting.forecast import PEAK_SHARE, peak_bins, steps_in
from forecasting.residuals import Indices

RATE, PEAK = 0, 1
"""The two kinds of target: the rate of a bin, and the highest rate over an interval from it on."""
KINDS = 2

_LEADS_UNITS = (0, 3, 6, 10, 20, 30, 45, 60, 74)
"""Leads that learned models are trained for; what lies between is interpolated."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Step, horizon and season of a fleet of topics, and the leads that follow from them.

    Everything that models measure in time is in units of a 75th of the horizon (a
    minute, for an hour and a quarter), so traffic played at 144 times its speed with
    settings scaled alike gives the same forecasts.

    >>> Grid(step_s=60.0, horizon_s=4500.0).leads.tolist()
    [0, 3, 6, 10, 20, 30, 45, 60, 74]
    >>> Grid(step_s=1800.0, horizon_s=4500.0).leads.tolist()
    [0, 1, 2]
    """

    step_s: float
    horizon_s: float
    season_s: float = 86_400.0

    @property
    def unit_s(self) -> float:
        """A minute, in traffic that has days of 24 hours."""
        return self.horizon_s * PEAK_SHARE / 15

    @property
    def steps(self) -> int:
        """Bins of a forecast."""
        return steps_in(self.horizon_s, self.step_s)

    @property
    def width(self) -> int:
        """Bins of the interval of a peak."""
        return peak_bins(self.step_s, self.horizon_s)

    @property
    def season(self) -> int:
        """Bins of a season."""
        return max(1, round(self.season_s / self.step_s))

    @property
    def leads(self) -> Indices:
        """First bins of the targets."""
        bins = (np.array(_LEADS_UNITS) * self.unit_s / self.step_s + 1e-9).astype(np.int64)
        return np.unique(np.minimum(bins, self.steps - 1))

    @property
    def reach(self) -> int:
        """Bins after the origin that the last target needs to be known."""
        return int(self.leads[-1]) + self.width

    def bins(self, units: float) -> int:
        """How many bins `units` are, at least one."""
        return max(1, round(units * self.unit_s / self.step_s))
