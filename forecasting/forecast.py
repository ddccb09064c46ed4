"""Traffic to come: quantile paths of the arrival rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from forecasting.errors import InvalidTraffic
from forecasting.history import Rates

LEVELS: tuple[float, ...] = (0.1, 0.5, 0.9, 0.95, 0.99)
"""The quantiles that every forecaster gives."""


PEAK_SHARE = 0.2
"""Peaks are told over this share of the horizon: a quarter of an hour in an hour and a quarter."""


def steps_in(horizon_s: float, step_s: float) -> int:
    """Bins that a horizon touches, at least one.

    >>> steps_in(3600.0, 60.0), steps_in(4500.0, 1800.0)
    (60, 3)
    """
    return max(1, math.ceil(horizon_s / step_s - 1e-9))


def peak_bins(step_s: float, horizon_s: float) -> int:
    """Bins of the interval over which a forecaster tells the highest rate.

    >>> peak_bins(60.0, 4500.0), peak_bins(1800.0, 4500.0)
    (15, 1)
    """
    return max(1, math.ceil(PEAK_SHARE * horizon_s / step_s - 1e-9))


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """Quantile paths of the rate: `paths[q, i]` for bin i after `issued_at_s`, at `levels[q]`.

    `peaks[q, i]` is the quantile of the *highest* rate over the `peak_s` that start with
    bin i: the 0.95 quantile of a maximum is more than the maximum of 0.95 quantiles.
    `data_age_s` is how old the newest measurement behind it was when it was issued.
    """

    issued_at_s: float
    step_s: float
    paths: Rates
    model: str
    levels: tuple[float, ...] = LEVELS
    data_age_s: float = 0.0
    peaks: Rates | None = None
    peak_s: float = 0.0
    score: float | None = None
    """Live score of what was served: pinball loss at 0.95 over the mean rate; None when not scored yet."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Weights of the models behind a mix, by name; empty when one model spoke alone."""
    trouble: str = ""
    """Why this is not the forecast that was asked for, in words for an operator; empty when it is."""

    def __post_init__(self) -> None:
        if self.step_s <= 0:
            raise InvalidTraffic(f"step_s is {self.step_s}; it must be a positive number of seconds")
        object.__setattr__(self, "paths", self._checked(self.paths))
        if self.peaks is not None:
            object.__setattr__(self, "peaks", self._checked(self.peaks))

    def _checked(self, given: Rates) -> Rates:
        paths = np.array(given, dtype=np.float64)
        if paths.ndim != 2 or paths.shape[0] != len(self.levels) or paths.shape[1] == 0:
            raise InvalidTraffic(
                f"forecast paths have shape {paths.shape}; expected ({len(self.levels)}, steps >= 1)"
            )
        if not np.isfinite(paths).all() or (paths < 0).any():
            raise InvalidTraffic(f"{self.model} gave rates that are not finite or are negative")
        if (paths[1:] < paths[:-1]).any():
            raise InvalidTraffic(f"{self.model} gave crossing quantiles")
        paths.flags.writeable = False
        return paths

    @property
    def horizon_s(self) -> float:
        """How far ahead it looks."""
        return float(self.step_s * self.paths.shape[1])

    def path(self, level: float) -> Rates:
        """The path at a quantile level; a level between two given ones takes the higher, the safe side."""
        path: Rates = self.paths[self._row(level)]
        return path

    def _row(self, level: float) -> int:
        return min(int(np.searchsorted(self.levels, level - 1e-9)), len(self.levels) - 1)

    def peak(self, level: float, *, from_s: float, until_s: float) -> float:
        """Highest rate at `level` in the bins that touch [from_s, until_s].

        Where peaks are known, those of the intervals that lie inside count too. Looking
        past the end uses the last bin: a short forecast must not read as a quiet future.

        >>> paths = np.array([[5.0, 9.0, 7.0]])
        >>> ahead = Forecast(issued_at_s=0.0, step_s=10.0, paths=paths, model="doc", levels=(0.5,))
        >>> ahead.peak(0.5, from_s=0.0, until_s=5.0), ahead.peak(0.5, from_s=25.0, until_s=90.0)
        (5.0, 7.0)
        """
        steps = self.paths.shape[1]
        first = min(max(int((from_s - self.issued_at_s) // self.step_s), 0), steps - 1)
        last = min(max(int((until_s - self.issued_at_s) // self.step_s), first), steps - 1)
        highest = float(self.path(level)[first : last + 1].max())
        inside = last + 2 - round(self.peak_s / self.step_s)
        if self.peaks is None or inside <= first:
            return highest
        return max(highest, float(self.peaks[self._row(level)][first:inside].max()))
