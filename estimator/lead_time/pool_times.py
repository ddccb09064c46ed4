"""How a pool behaves: how long workers take to train, what a resize stops, how often they fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from estimator.lead_time.durations import Durations

CAREFUL = 0.9
"""The quantile that lead time and pause are planned with."""
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
        """Deaths of a ready worker."""
        return (0.5 + self.died) / (5 + self.days)


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
    starts: Mapping[str, Durations] = field(default_factory=dict)
    """By GPU type."""
    asked_at_s: Mapping[str, float] = field(default_factory=dict)
    """When the workers that came last were asked for, by GPU type."""
    pauses: Durations | None = None
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
        known = self.pauses or Durations(self.pause_stated_s)
        return replace(self, pauses=known.seen(pause_s))

    def lived(self, worker_s: float, *, died: int = 0) -> PoolTimes:
        """Ready workers lived `worker_s` together, and `died` of them ended unasked."""
        return replace(self, failures=self.failures.lived(worker_s, died=died))

    def lead_times(self, gpu_type: str = "") -> Durations:
        """Their distribution; a type never started is as the settings say."""
        return self.starts.get(gpu_type) or Durations(self.lead_time_stated_s)

    def lead_time_s(self, gpu_type: str = "", *, waited_s: float = 0.0) -> float:
        """What to plan with: the time within which nine of ten come, from now on.

        A worker that is overdue is not about to come because of that: the longer it
        has been waited for, the longer it will be.
        """
        known = self.lead_times(gpu_type)
        careful_s = known.quantile_s(CAREFUL)
        if waited_s <= 0:
            return careful_s
        left_s = _time_left_s(known, waited_s)
        return max(left_s, waited_s) if waited_s > careful_s else left_s

    def pause_s(self) -> float:
        """What to plan with: how long nine of ten resizes stop training at most."""
        return (self.pauses or Durations(self.pause_stated_s)).quantile_s(CAREFUL)

    def _with(self, known: Durations, asked_at_s: float, gpu_type: str, failures: Failures) -> PoolTimes:
        return replace(
            self,
            starts={**self.starts, gpu_type: known},
            asked_at_s={**self.asked_at_s, gpu_type: asked_at_s},
            failures=failures,
        )


def _time_left_s(known: Durations, waited_s: float) -> float:
    """The t with P(over within t | waited) = CAREFUL, by doubling and halving."""
    high = 1.0
    while known.probability_within(high, waited_s=waited_s) < CAREFUL and high < 1e7:
        high *= 2
    low = high / 2
    for _ in range(12):
        middle = (low + high) / 2
        if known.probability_within(middle, waited_s=waited_s) < CAREFUL:
            low = middle
        else:
            high = middle
    return high
