"""How a pool behaves: how long workers take to train, what a resize stops, how often they fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from estimator.lead_time.durations import Durations

ENOUGH = 9
"""Durations of which the longest is their 90 % quantile."""
STARTS_KEPT = 200.0
DAY_S = 86_400.0
DAYS_KEPT = 500.0


@dataclass(frozen=True, slots=True)
class Failures:
    """Counts that forget, each with a prior: nothing seen to fail is not the same as nothing fails.

    The share of starts that fail has mean (a + failed)/(a + b + starts), a Beta posterior;
    the rate at which ready workers die (c + died)/(d + days), a Gamma posterior.

    >>> Failures().start_share, round(Failures().started().start_share, 3)
    (0.05, 0.045)
    """

    starts: float = 0.0
    failed: float = 0.0
    days: float = 0.0
    """Worker-days watched."""
    died: float = 0.0

    def started(self, *, failed: bool = False) -> Failures:
        """One start more."""
        keep = min(1.0, STARTS_KEPT / (self.starts + 1))
        return replace(self, starts=keep * self.starts + 1, failed=keep * self.failed + failed)

    def lived(self, worker_s: float, *, died: int = 0) -> Failures:
        """Ready workers lived `worker_s` together, and `died` of them ended unasked."""
        if not (math.isfinite(worker_s) and worker_s >= 0 and died >= 0):
            return self
        days = worker_s / DAY_S
        keep = min(1.0, DAYS_KEPT / (self.days + days)) if days > 0 else 1.0
        return replace(self, days=keep * self.days + days, died=keep * self.died + died)

    @property
    def start_share(self) -> float:
        """Of starts, those that fail."""
        return (0.5 + self.failed) / (10 + self.starts)

    @property
    def per_worker_day(self) -> float:
        """Deaths of a ready worker; at least as many as those seen prove (two deviations below their mean).

        Without that bound a pool whose workers die every few minutes takes days to be known.

        >>> Failures().lived(86_400.0, died=1).per_worker_day
        0.25
        >>> Failures().lived(8_640.0, died=9).per_worker_day
        30.0
        """
        posterior = (0.5 + self.died) / (5 + self.days)
        proven = self.died - 2 * math.sqrt(self.died)
        return max(posterior, proven / self.days) if self.days > 0 else posterior

    @property
    def per_worker_s(self) -> float:
        """The same, a second."""
        return self.per_worker_day / DAY_S


@dataclass(frozen=True, slots=True)
class PoolTimes:
    """What one pool has shown, by GPU type where that matters. An immutable value; stored as it is.

    >>> pool = PoolTimes(lead_time_stated_s=120.0)
    >>> pool.lead_time_s(), pool.ready(50.0, asked_at_s=0.0).lead_time_s() > 50
    (120.0, True)
    """

    lead_time_stated_s: float
    """From asking for a worker to its first trained batch, by the settings."""
    pause_stated_s: float = 0.0
    """How long a resize stops training, by the settings."""
    starts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Lead times in seconds, oldest first, by GPU type."""
    asked_at_s: Mapping[str, float] = field(default_factory=dict)
    """When the workers that came last were asked for, by GPU type."""
    pauses: tuple[float, ...] = ()
    """In seconds, oldest first."""
    failures: Failures = field(default_factory=Failures)

    def ready(self, took_s: float, *, asked_at_s: float, gpu_type: str = "") -> PoolTimes:
        """A worker trained its first batch `took_s` after it was asked for.

        Workers that were asked for together share one fate, the zone's or the image's: the
        slowest of them counts, once.
        """
        known = self.lead_times(gpu_type)
        if self.asked_at_s.get(gpu_type) == asked_at_s and known.latest:
            slowest = max(known.latest[-1], took_s) if math.isfinite(took_s) else known.latest[-1]
            known = replace(known, latest=(*known.latest[:-1], slowest))
        else:
            known = known.seen(took_s)
        return self._with(known, asked_at_s, gpu_type, self.failures.started())

    def given_up(self, waited_s: float, *, asked_at_s: float, gpu_type: str = "") -> PoolTimes:
        """A worker failed to start, or was called off for not coming, `waited_s` after it was asked for."""
        known = self.lead_times(gpu_type).given_up(waited_s)
        return self._with(known, asked_at_s, gpu_type, self.failures.started(failed=True))

    def paused(self, pause_s: float) -> PoolTimes:
        """A resize stopped training for `pause_s`; 0 counts too."""
        return replace(self, pauses=Durations(self.pause_stated_s, self.pauses).seen(pause_s).latest)

    def lived(self, worker_s: float, *, died: int = 0) -> PoolTimes:
        """Ready workers lived `worker_s` together, and `died` of them ended unasked."""
        return replace(self, failures=self.failures.lived(worker_s, died=died))

    def lead_times(self, gpu_type: str = "") -> Durations:
        """Their distribution; a type never started is as the settings say."""
        return Durations(self.lead_time_stated_s, self.starts.get(gpu_type, ()))

    def lead_time_s(self, gpu_type: str = "") -> float:
        """What to plan with: the time within which nine of ten workers come."""
        return self.lead_times(gpu_type).careful_s

    def pause_s(self) -> float:
        """What to plan with: how long nine of ten resizes stop training at most.

        Where no resize ever stopped it, the shape of durations says nothing: then it is what was
        stated, until enough have been seen.
        """
        known = Durations(self.pause_stated_s, self.pauses)
        if any(self.pauses) or len(self.pauses) >= ENOUGH:
            return known.careful_s
        return self.pause_stated_s

    def _with(self, known: Durations, asked_at_s: float, gpu_type: str, failures: Failures) -> PoolTimes:
        return replace(
            self,
            starts={**self.starts, gpu_type: known.latest},
            asked_at_s={**self.asked_at_s, gpu_type: asked_at_s},
            failures=failures,
        )
