"""Traffic that was: mean arrival rates on a regular grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.errors import InvalidTraffic

Rates = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TrafficHistory:
    """Mean arrival rates of equal bins; bin i covers [start_s + i·step_s, start_s + (i+1)·step_s).

    A gap is NaN: the meter was away. It is unknown traffic, never zero traffic.

    >>> history = TrafficHistory(start_s=0.0, step_s=60.0, rates=np.array([5.0, np.nan, 7.0]))
    >>> history.end_s, history.known
    (180.0, 2)
    """

    start_s: float
    step_s: float
    rates: Rates

    def __post_init__(self) -> None:
        if not (math.isfinite(self.step_s) and self.step_s > 0):
            raise InvalidTraffic(f"step_s is {self.step_s}; it must be a positive number of seconds")
        if not math.isfinite(self.start_s):
            raise InvalidTraffic(f"start_s is {self.start_s}; it must be a time in seconds")
        rates = np.array(self.rates, dtype=np.float64)
        if rates.ndim != 1:
            raise InvalidTraffic(f"rates have {rates.ndim} dimensions; one is expected")
        if np.any(np.isinf(rates)) or np.any(rates < 0):
            raise InvalidTraffic("rates must be finite and not negative; use NaN for a gap")
        rates.flags.writeable = False
        object.__setattr__(self, "rates", rates)

    @property
    def end_s(self) -> float:
        """Close of the last bin: nothing after this was seen."""
        return self.start_s + self.step_s * len(self.rates)

    @property
    def span_s(self) -> float:
        """How far back the grid reaches, gaps included."""
        return self.step_s * len(self.rates)

    @property
    def known(self) -> int:
        """How many bins hold a measurement."""
        return int(np.count_nonzero(~np.isnan(self.rates)))

    @property
    def bins_since_last(self) -> int:
        """Bins after the last measurement; 0 when nothing was measured.

        >>> TrafficHistory(start_s=0.0, step_s=10.0, rates=np.array([1.0, np.nan])).bins_since_last
        1
        """
        return int(np.argmin(np.isnan(self.rates[::-1]))) if len(self.rates) else 0

    @property
    def data_age_s(self) -> float:
        """How long before its end the last measurement closed."""
        return self.bins_since_last * self.step_s

    def recent(self, seconds: float) -> Rates:
        """The measured rates of the last `seconds`, gaps left out; empty when none was measured.

        >>> TrafficHistory(start_s=0.0, step_s=10.0, rates=np.array([1.0, 2.0, np.nan])).recent(20)
        array([2.])
        """
        bins = max(1, round(seconds / self.step_s))
        tail = self.rates[-bins:]
        return tail[~np.isnan(tail)]
