"""What a job wants now, and what it loses with less."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from estimator.fleet.errors import InvalidFleet
from estimator.fleet.standing import NOTHING, Configuration, JobId, Standing


@dataclass(frozen=True, slots=True)
class Wish:
    """One job's word to the fleet for one tick."""

    job: Standing
    workers: Mapping[str, int]
    """By GPU type, how many its planner would take there if it were alone; it takes one type at a time."""
    curves: Mapping[str, tuple[float, ...]]
    """By GPU type, C_low(0), C_low(1), ... in samples/s; flat beyond the last."""
    demand_per_s: float
    """Samples/s that have to be trained: traffic as forecast, and the backlog within the time it may take."""
    current: Configuration = NOTHING
    """What it has now."""
    pinned: bool = False
    """In the middle of a resize: it keeps `current` until that is over."""
    restart: float = 1.0
    """Share of a step's work that is left when the job is resized: 1 where workers join without a pause,
    less where a resize stops training."""
    preferred: str = ""
    """The type it would take if alone; empty lets the cheapest that meets the demand decide."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.demand_per_s) and self.demand_per_s >= 0):
            raise InvalidFleet(
                f"job {self.job.id} demands {self.demand_per_s} samples/s; it is a number from 0"
            )
        if not 0 <= self.restart <= 1:
            raise InvalidFleet(
                f"job {self.job.id} keeps {self.restart} of its work at a resize; it is in [0, 1]"
            )
        for kind, workers in self.workers.items():
            if workers < 0:
                raise InvalidFleet(f"job {self.job.id} wishes {workers} workers on {kind!r}; it is from 0")
            if not self.curves.get(kind):
                raise InvalidFleet(
                    f"job {self.job.id} wishes workers on {kind!r} without saying what they train"
                )

        for kind, curve in self.curves.items():
            if not (math.isfinite(sum(curve)) and min(curve, default=0.0) >= 0):
                raise InvalidFleet(
                    f"job {self.job.id} has no number from 0 somewhere in its curve of {kind!r}"
                )

    @property
    def id(self) -> JobId:
        """Whose wish it is."""
        return self.job.id


@dataclass(frozen=True, slots=True)
class ShareRules:
    """How a fleet shares. The defaults are explained in docs/fleet.md."""

    marginal_min: float = 0.2
    """Under contention, a worker that adds less than this share of the first one's worth goes back."""
    time_limit_s: float = 2.0
    """For the integer programme; then the best solution so far is taken."""
    gap: float = 0.005
    """How near to the optimum is near enough."""
    power: float = 0.5
    """Concavity of the programme's objective: nearer to 0 is fairer, 1 is the most satisfaction in sum."""
    met: float = 0.5
    """The part of a job's worth in the programme that it has only when its demand is met in full."""
    counts_max: int = 8
    """Worker counts considered for a job on one type."""

    def __post_init__(self) -> None:
        if not 0 <= self.marginal_min < 1:
            raise InvalidFleet(f"marginal_min is {self.marginal_min}; it is in [0, 1)")
        if not 0 < self.power <= 1:
            raise InvalidFleet(f"power is {self.power}; it is in (0, 1]")
        if not 0 <= self.met <= 1:
            raise InvalidFleet(f"met is {self.met}; it is in [0, 1]")
        if self.counts_max < 2 or not self.time_limit_s > 0 or not self.gap >= 0:
            raise InvalidFleet("counts_max is from 2, time_limit_s above 0 and gap from 0")


DEFAULT_RULES = ShareRules()
