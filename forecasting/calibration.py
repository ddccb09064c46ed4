"""Make "0.95" mean 95 %, where it does not, and no further than a bound.

Correcting every wobble of the coverage costs more than it mends: a window of a few
hundred forecasts misses the true coverage by some percent (forecasts of one hour err
together), and a spread that follows it is noise. So nothing is touched while the coverage
of the window is within `COVERAGE_LOW` and `COVERAGE_HIGH`; beyond them the spread above
the median is scaled, half the way, within bounds.
"""

from __future__ import annotations

import numpy as np

from forecasting.forecast import LEVELS
from forecasting.grid import KINDS, Grid
from forecasting.history import Rates

WINDOW = 288
SCORED_MIN = 96
COVERAGE_LOW, COVERAGE_HIGH = 0.88, 0.99
SCALE_MIN, SCALE_MAX = 0.8, 1.4
"""The cap: an upper quantile is widened by at most two fifths."""

_MEDIAN, _UPPER = LEVELS.index(0.5), LEVELS.index(0.95)


class Calibration:
    """The last residuals of one topic by kind and lead, in units of the spread that was served."""

    def __init__(self, grid: Grid) -> None:
        shape = (KINDS, len(grid.leads))
        self._residuals = np.full((*shape, WINDOW), np.nan, dtype=np.float32)
        self._count = np.zeros(shape, dtype=np.int64)
        self.scale = np.ones(shape)

    def learn(self, kind: int, lead: int, came: float, served: Rates) -> None:
        """`served` are the quantiles before calibration."""
        spread = served[_UPPER] - served[_MEDIAN]
        if spread <= 0:
            return
        place = self._count[kind, lead] % WINDOW
        self._residuals[kind, lead, place] = np.clip((came - served[_MEDIAN]) / spread, -100, 100)
        self._count[kind, lead] += 1
        if self._count[kind, lead] % 12 == 0:
            self.scale[kind, lead] = self._scale_for(kind, lead)

    def _scale_for(self, kind: int, lead: int) -> float:
        known = min(int(self._count[kind, lead]), WINDOW)
        if known < SCORED_MIN:
            return 1.0
        residuals = self._residuals[kind, lead, :known]
        coverage = float(np.mean(residuals <= 1.0))
        if COVERAGE_LOW <= coverage <= COVERAGE_HIGH:
            return 1.0
        wanted = float(np.quantile(residuals, LEVELS[_UPPER]))
        return float(np.clip(np.sqrt(max(wanted, 1e-6)), SCALE_MIN, SCALE_MAX))

    def applied(self, served: Rates) -> Rates:
        """(KINDS, leads, LEVELS) with the levels above the median moved."""
        median = served[..., _MEDIAN : _MEDIAN + 1]
        above = median + (served[..., _MEDIAN + 1 :] - median) * self.scale[..., None]
        return np.concatenate([served[..., : _MEDIAN + 1], above], axis=-1)
