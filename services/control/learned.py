"""What a job has learned of its workers and of its pool. Plain values: stored as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from estimator.lead_time import PoolTimes
from estimator.throughput import GpuTypes, Guess, ThroughputModel


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the ticks since `since_s` have shown of one pool size."""

    since_s: float | None = None
    ready: int = 0
    ticks: int = 0
    """Those in which the meter told of this size alone."""
    trained_per_s: float = 0.0
    """Sum over them, by the meter."""
    trained_least: float = 0.0
    """The least and the most that one of them told, a second."""
    trained_most: float = 0.0
    waiting: bool = True
    """Samples waited at every tick."""
    told: int = 0
    """Ticks in which workers reported."""
    all_told: bool = True
    """All of them in every tick."""
    busy: float = 0.0
    """Sum over those ticks of all ready workers' busy fractions."""
    rate: float = 0.0
    """Sum over those ticks of all ready workers' samples/s, by their own account."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """The throughput model of a job, by GPU type, and the window being gathered for it."""

    types: GpuTypes = field(default_factory=GpuTypes)
    gpu_type: str = ""
    """Of the workers seen last."""
    gathered: Gathered = field(default_factory=Gathered)

    guess: Guess = field(default_factory=lambda: Guess(1.0))
    """What the policy of the last tick said of a lone worker; counts until one has been seen."""
    refused: int = 0
    """Workers' reports that could not be true, counted at every tick that was shown one."""

    @property
    def model(self) -> ThroughputModel:
        """What is known of the GPU type in use."""
        return self.types.of(self.gpu_type, self.guess)


@dataclass(frozen=True, slots=True)
class PauseWatch:
    """A change of the pool whose effect on freshness is being watched."""

    since_s: float
    lag_before_s: float
    lag_most_s: float


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """What the pool's resizes have shown, and what is under way."""

    times: PoolTimes | None = None
    """None before the first tick: what the settings state is not known here."""
    lead_time_s: float = 0.0
    """To plan with; worked out when something was learned."""
    lead_times_s: tuple[float, ...] = ()
    """Equally likely ones, where they differ widely."""
    pause_s: float = 0.0
    awaited: Mapping[str, float] = field(default_factory=dict)
    """When each worker that has not trained yet was asked for."""
    ready: tuple[str, ...] = ()
    failures: int = 0
    at_s: float = 0.0
    lag_s: float = 0.0
    worker_s: float = 0.0
    """Time lived by ready workers and not yet counted."""
    pause: PauseWatch | None = None
