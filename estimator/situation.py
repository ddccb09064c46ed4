"""What a sizing rule may look at, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from estimator.capacity import Capacity
from estimator.reason import Reason
from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory


@dataclass(frozen=True, slots=True)
class Slo:
    """The freshness promised: trained within `fresh_within_s` of arrival, but for `late_share_target`."""

    fresh_within_s: float = 60.0
    late_share_target: float = 0.01

    def is_lost(self, *, lag_s: float, rate_per_s: float, able_per_s: float, lead_time_s: float) -> bool:
        """Whether samples are late, or will be before a worker asked for now trains, if traffic stays.

        Behind by `lag_s` and able to train C of the `rate_per_s` that arrive, the oldest sample is
        lag + (rate / C - 1)·lead time old by then.

        >>> jump = {"lag_s": 0.0, "able_per_s": 100.0, "lead_time_s": 180.0}
        >>> Slo(60.0).is_lost(rate_per_s=130.0, **jump), Slo(60.0).is_lost(rate_per_s=140.0, **jump)
        (False, True)
        """
        if lag_s > self.fresh_within_s or able_per_s <= 0:
            return lag_s > self.fresh_within_s
        return lag_s + (rate_per_s / able_per_s - 1) * lead_time_s > self.fresh_within_s


@dataclass(frozen=True, slots=True)
class Limits:
    """What no rule may cross. `workers_max` already counts the partitions where leases are off."""

    workers_min: int = 1
    workers_max: int = 8


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a sizing rule may know at one tick."""

    now_s: float
    rate_per_s: float
    """Samples arriving."""
    lag: float
    """Samples that arrived and are not trained."""
    lag_s: float
    """Age of the oldest of them."""
    trained_per_s: float
    """Samples being trained."""
    requested: int
    """Workers that the platform was asked for."""
    ready: int
    """Workers that train now."""
    busy: float | None
    """Mean busy fraction of the ready workers; None without telemetry."""
    capacity: Capacity
    slo: Slo
    limits: Limits
    lead_time_s: float
    """From asking for a worker to its first trained batch."""
    pause_s: float
    """How long a resize stops training."""
    forecast: Forecast | None = None
    partition_lags: tuple[float, ...] = ()
    """Lag by partition, for rules that look at partitions."""
    busy_by_worker: Mapping[str, float] = field(default_factory=dict)
    """Busy fraction of each ready worker that reported; a ready one that is missing did not."""
    history: TrafficHistory | None = None
    """Traffic before this tick, as the meter has it."""
    starting_since_s: tuple[float, ...] = ()
    """When each worker that does not train yet was asked for."""
    lead_times_s: tuple[float, ...] = ()
    """Equally likely lead times, where they were measured: with scarce GPUs minutes or hours."""
    deaths_per_s: float = 0.0
    """How often a worker that trains dies; another then takes the lead time to come."""
    standbys: int = 0
    """Workers that wait, loaded, beside those requested: the first more that are wanted train at once."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """A rule's answer: how many workers, why, and the numbers that led there."""

    workers: int
    reason: Reason
    numbers: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[Reason, ...] = ()
    """What else an operator should know: a fallback in force, a promise that cannot be kept."""
