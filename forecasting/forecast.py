"""Traffic to come: quantile paths of the arrival rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forecasting.errors import InvalidTraffic
from forecasting.history import Rates

LEVELS: tuple[float, ...] = (0.1, 0.5, 0.9, 0.95, 0.99)
"""The quantiles that every forecaster gives."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """Quantile paths of the rate: `paths[q, i]` for bin i after `issued_at_s`, at `levels[q]`.

    `data_age_s` is how old the newest measurement behind it was when it was issued.
    """

    issued_at_s: float
    step_s: float
    paths: Rates
    model: str
    levels: tuple[float, ...] = LEVELS
    data_age_s: float = 0.0

    def __post_init__(self) -> None:
        paths = np.array(self.paths, dtype=np.float64)
        if paths.ndim != 2 or paths.shape[0] != len(self.levels) or paths.shape[1] == 0:
            raise InvalidTraffic(
                f"forecast paths have shape {paths.shape}; expected ({len(self.levels)}, steps >= 1)"
            )
        if not np.all(np.isfinite(paths)) or np.any(paths < 0):
            raise InvalidTraffic(f"{self.model} gave rates that are not finite or are negative")
        if np.any(np.diff(paths, axis=0) < 0):
            raise InvalidTraffic(f"{self.model} gave crossing quantiles")
        if self.step_s <= 0:
            raise InvalidTraffic(f"step_s is {self.step_s}; it must be a positive number of seconds")
        paths.flags.writeable = False
        object.__setattr__(self, "paths", paths)

    @property
    def horizon_s(self) -> float:
        """How far ahead it looks."""
        return float(self.step_s * self.paths.shape[1])

    def path(self, level: float) -> Rates:
        """The path at a quantile level; a level between two given ones takes the higher, the safe side."""
        index = int(np.searchsorted(self.levels, level - 1e-9))
        path: Rates = self.paths[min(index, len(self.levels) - 1)]
        return path

    def peak(self, level: float, *, from_s: float, until_s: float) -> float:
        """Highest rate at `level` in the bins that touch [from_s, until_s].

        Looking past the end uses the last bin: a short forecast must not
        read as a quiet future.

        >>> paths = np.array([[5.0, 9.0, 7.0]])
        >>> ahead = Forecast(issued_at_s=0.0, step_s=10.0, paths=paths, model="doc", levels=(0.5,))
        >>> ahead.peak(0.5, from_s=0.0, until_s=5.0), ahead.peak(0.5, from_s=25.0, until_s=90.0)
        (5.0, 7.0)
        """
        steps = self.paths.shape[1]
        first = min(max(int((from_s - self.issued_at_s) // self.step_s), 0), steps - 1)
        last = min(max(int((until_s - self.issued_at_s) // self.step_s), first), steps - 1)
        return float(self.path(level)[first : last + 1].max())
