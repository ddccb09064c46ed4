"""What a fleet's policy may look at, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from estimator.capacity import Capacity
from estimator.situation import Limits, Situation, Slo
from forecasting.history import TrafficHistory
from services.simulator.fleet.file import FleetFile
from services.simulator.fleet.kernel import Counts
from services.simulator.fleet.world import Sizes
from services.simulator.trace import Floats


@dataclass(frozen=True, slots=True, eq=False)
class FleetSeen:
    """All that a policy may know at one tick, by job or by job and type. The truth is not part of it."""

    fleet: FleetFile
    now_s: float
    rate_per_s: Floats
    lag: Floats
    lag_s: Floats
    trained_per_s: Floats
    busy: Floats
    """Mean busy fraction of the ready workers, with noise."""
    ready: Sizes
    starting: Sizes
    requested: Sizes
    starting_since_s: tuple[tuple[float, ...], ...]
    free: Counts
    """GPUs of each type that nobody holds."""
    rates: Floats
    """Samples/s of a lone GPU as far as is known: told by a profile, then measured."""
    sure: Floats
    """The share of each that can be counted on."""
    history: Callable[[int], TrafficHistory]

    @property
    def capacity(self) -> Counts:
        """GPUs of each type."""
        return np.array([kind.gpus for kind in self.fleet.gpu_types.values()])

    def curve(self, job: int, kind: int, most: int) -> Floats:
        """C(0), C(1), ..., C(most) as known."""
        n = np.arange(most + 1, dtype=np.float64)
        c = self.fleet.jobs[job].contention
        return np.asarray(self.rates[job, kind] * n / (1 + c * np.maximum(n - 1, 0.0)))

    def situation(self, job: int, kind: int, limits: Limits) -> Situation:
        """One job's own view, as its controller would have it; capacity is that of type `kind`."""
        fleet = self.fleet
        ready = int(self.ready[job].sum())
        busy = float(self.busy[job]) if ready else None
        return Situation(
            now_s=self.now_s,
            rate_per_s=float(self.rate_per_s[job]),
            lag=float(self.lag[job]),
            lag_s=float(self.lag_s[job]),
            trained_per_s=float(self.trained_per_s[job]),
            requested=int(self.requested[job].sum()),
            ready=ready,
            busy=busy,
            capacity=Capacity(max(float(self.rates[job, kind]), 1e-9), fleet.jobs[job].contention),
            slo=Slo(fleet.slo_s, fleet.late_share_target),
            limits=limits,
            lead_time_s=max(fleet.startup_late_s, 1.0),
            pause_s=fleet.pause_s,
            busy_by_worker={} if busy is None else {str(worker): busy for worker in range(ready)},
            history=self.history(job),
            starting_since_s=self.starting_since_s[job],
        )


@dataclass(frozen=True, slots=True, eq=False)
class FleetDecision:
    """What every job is to have, what it wanted before anybody shared, and whether that was too much."""

    workers: Sizes
    wanted: Sizes
    contended: bool


class FleetPolicy(Protocol):
    """Decides for all jobs of a fleet. It may remember; a fresh one is made for every run."""

    @property
    def period_s(self) -> int:
        """Seconds between two decisions."""
        ...

    def decide(self, seen: FleetSeen) -> FleetDecision:
        """The sizes to ask for now."""
        ...
