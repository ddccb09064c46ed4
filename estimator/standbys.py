"""How many workers to keep warm: a newsvendor's choice on jumps of traffic before a cold one could come."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.capacity import Capacity
from forecasting.forecast import Forecast

STEADY = 2.0
"""Standbys are given up only where this many times the price of lateness would not keep them either:
else every new forecast would move the pool by one."""


@dataclass(frozen=True, slots=True)
class Standbys:
    """How many, and why."""

    workers: int
    ratio: float
    """The chance of a jump that is covered: price / (price + 1)."""
    peak_per_s: float
    """The rate that is exceeded within the lead time with the rest of the chance."""


def critical_ratio(price: float) -> float:
    """The newsvendor's: what one too few costs, over what one too few and one too many cost together.

    A second of a warm worker that is not needed costs a second of a worker. A second of one that is
    missing makes as many samples late as it would have trained, at `price` works of a sample each:
    `price` seconds of a worker.

    >>> critical_ratio(19.0)
    0.95
    """
    return price / (price + 1.0)


def standbys_for(
    forecast: Forecast,
    capacity: Capacity,
    *,
    now_s: float,
    lead_time_s: float,
    active: int,
    kept: int,
    workers_max: int,
    price: float,
) -> Standbys:
    """Warm workers beside `active` ones that train, where `kept` are warm now; no more than fit the limit."""
    ratio = critical_ratio(price)

    def needed(level: float) -> tuple[int, float]:
        peak = forecast.peak(level, from_s=now_s, until_s=now_s + lead_time_s)
        room = max(0, workers_max - active)
        return min(max(capacity.workers_for(peak, workers_max=workers_max) - active, 0), room), peak

    fewest, peak = needed(ratio)
    most, _ = needed(critical_ratio(STEADY * price))
    return Standbys(min(max(kept, fewest), max(most, fewest)), ratio, peak)
