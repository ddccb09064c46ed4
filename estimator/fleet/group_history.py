"""What jobs of the same group were like: the prior for the next one of the same owner and model (PAI)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from estimator.capacity import CONTENTION_MAX, Capacity
from estimator.fleet.errors import InvalidFleet

HOURS = 24


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What was learned of one job that ran."""

    group: str
    gpu_type: str
    own_s: float
    """Z: a step's time of a worker alone, without what workers share."""
    shared_s: float
    """D: a step's time at the busiest thing that workers share."""
    batch: int
    hourly: tuple[float, ...]
    """Mean traffic by hour of the day, in any unit."""
    seen_s: float
    """For how long it was observed: what it counts against others."""

    def __post_init__(self) -> None:
        times = (self.own_s, self.shared_s, self.seen_s)
        if not all(math.isfinite(time) and time > 0 for time in times) or self.batch < 1:
            raise InvalidFleet(f"a record of group {self.group!r} has times {times} and batch {self.batch}")
        if len(self.hourly) != HOURS or not all(math.isfinite(rate) and rate >= 0 for rate in self.hourly):
            raise InvalidFleet(f"a record of group {self.group!r} needs {HOURS} hourly rates from 0")


@dataclass(frozen=True, slots=True)
class GroupPrior:
    """What to expect of a new job of a group."""

    own_s: float
    shared_s: float
    batch: int
    daily: tuple[float, ...]
    """By hour of the day, times the day's mean."""
    jobs: int
    spread: float
    """How far apart the group's jobs are: the standard deviation of the logarithm of a lone worker's rate."""

    def from_hour(self, hour: int) -> tuple[float, ...]:
        """The day's shape, beginning with this hour of the day."""
        return self.daily[hour:] + self.daily[:hour]

    @property
    def capacity(self) -> Capacity:
        """C(n) to start with: a lone worker's rate, and the contention that makes its ceiling batch/D."""
        cycle_s = self.own_s + self.shared_s
        return Capacity(self.batch / cycle_s, min(self.shared_s / cycle_s, CONTENTION_MAX))


def prior_of(group: str, gpu_type: str, records: Iterable[JobRecord]) -> GroupPrior | None:
    """The prior from the group's own records on this type; from other types where there is none.

    Times are averaged by their logarithms, as ratios are what differs between jobs, each by how long it
    was seen. None for a group without records, and for jobs of no group: strangers teach nothing.
    """
    known = [record for record in records if group and record.group == group]
    mine = [record for record in known if record.gpu_type == gpu_type] or known
    if not mine:
        return None
    total = math.fsum(record.seen_s for record in mine)
    shares = [record.seen_s / total for record in mine]
    rates = [math.log(record.batch / (record.own_s + record.shared_s)) for record in mine]
    mean = math.fsum(share * rate for share, rate in zip(shares, rates, strict=True))
    spread = math.sqrt(
        math.fsum(share * (rate - mean) ** 2 for share, rate in zip(shares, rates, strict=True))
    )
    return GroupPrior(
        own_s=_geometric(shares, [record.own_s for record in mine]),
        shared_s=_geometric(shares, [record.shared_s for record in mine]),
        batch=max(mine, key=lambda record: record.seen_s).batch,
        daily=_daily(shares, mine),
        jobs=len(mine),
        spread=spread,
    )


def _geometric(shares: list[float], times: list[float]) -> float:
    return math.exp(math.fsum(share * math.log(time) for share, time in zip(shares, times, strict=True)))


def _daily(shares: list[float], records: list[JobRecord]) -> tuple[float, ...]:
    """The mean of the days' shapes, each first brought to a mean of 1; flat for a day without traffic."""
    shape = [0.0] * HOURS
    for share, record in zip(shares, records, strict=True):
        mean = math.fsum(record.hourly) / HOURS
        for hour, rate in enumerate(record.hourly):
            shape[hour] += share * (rate / mean if mean > 0 else 1.0)
    return tuple(shape)
