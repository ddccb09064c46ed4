"""A meter without Kafka: readings come from a script. For the simulator and for tests."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from forecasting.history import TrafficHistory
from services.control.errors import TrafficUnavailable
from services.control.types import TrafficReading
from services.meter.history import RateHistory


class MemoryMeter:
    """Gives out one reading of the script after another, then the last one again and again.

    An error in the script is raised in its turn. The history is made from the
    readings: each one's rate holds from the time of the reading before it.
    """

    def __init__(
        self, script: Iterable[TrafficReading | TrafficUnavailable] = (), *, step_s: float = 60.0
    ) -> None:
        self._script = list(script)
        self._history = RateHistory(step_s=step_s, resolutions=())
        self._last: TrafficReading | None = None

    def push(self, reading: TrafficReading | TrafficUnavailable) -> None:
        """Add to the script."""
        self._script.append(reading)

    def seed(self, past: TrafficHistory) -> None:
        """Take over a past known from elsewhere."""
        self._history.seed(past)

    async def read(self) -> TrafficReading:
        """The next reading of the script. Raises TrafficUnavailable where the script says so, or is empty."""
        if not self._script:
            if self._last is None:
                raise TrafficUnavailable("nothing was measured: the script of this meter is empty")
            return self._last
        reading = self._script.pop(0)
        if isinstance(reading, TrafficUnavailable):
            raise reading
        self._record(reading)
        self._last = reading
        return reading

    def history(self) -> TrafficHistory:
        """The past arrival rates, gaps as NaN."""
        return self._history.history()

    def _record(self, reading: TrafficReading) -> None:
        if self._last is None or reading.at_s <= self._last.at_s:
            return
        seconds = reading.at_s - self._last.at_s
        self._history.add(self._last.at_s, reading.at_s, reading.rate_per_s * seconds)


def steady(rate_per_s: float, *, partitions: int = 1, at_s: float = 0.0) -> TrafficReading:
    """A reading of traffic that is trained as it comes.

    >>> steady(10.0, partitions=2).partition_rates
    (5.0, 5.0)
    """
    shares = tuple(float(share) for share in np.full(partitions, rate_per_s / partitions))
    return TrafficReading(
        at_s=at_s,
        rate_per_s=rate_per_s,
        trained_per_s=rate_per_s,
        lag=0,
        lag_s=0.0,
        partition_rates=shares,
        partition_lags=(0,) * partitions,
    )
