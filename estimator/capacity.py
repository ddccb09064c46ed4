"""C(n): how many samples a second n workers can train."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Capacity:
    """C(n) = rate_per_worker · n / (1 + contention · (n - 1)).

    `rate_per_worker` is what one worker trains in a second of *busy* time.
    While a job keeps up, throughput equals traffic and says nothing about
    capacity; busy time is never censored in this way, so it is what we learn from.

    >>> Capacity(rate_per_worker=100.0, contention=0.0).workers_for(250.0, workers_max=8)
    3
    """

    rate_per_worker: float
    contention: float = 0.02
    observations: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate_per_worker) and self.rate_per_worker > 0):
            raise ValueError(f"rate_per_worker is {self.rate_per_worker}; it must be a positive number")
        if not 0 <= self.contention < 1:
            raise ValueError(f"contention is {self.contention}; it must be in [0, 1)")

    def samples_per_s(self, workers: int) -> float:
        """C(n); zero workers train nothing."""
        if workers <= 0:
            return 0.0
        return self.rate_per_worker * workers / (1 + self.contention * (workers - 1))

    def workers_for(self, rate_per_s: float, *, workers_max: int) -> int:
        """The fewest workers that carry `rate_per_s`; `workers_max + 1` when not even the most do.

        One more than there may be tells whoever applies the limit that it binds.
        From C(n) >= r:  n >= r·(1 - contention) / (rate_per_worker - r·contention).
        """
        if rate_per_s <= 0:
            return 0
        headroom = self.rate_per_worker - rate_per_s * self.contention
        if headroom <= 0:  # beyond the curve's ceiling, rate_per_worker / contention
            return workers_max + 1
        # The tiny slack keeps a demand of exactly C(n) at n in spite of rounding.
        wanted = math.ceil(rate_per_s * (1 - self.contention) / headroom - 1e-9)
        return min(max(wanted, 1), workers_max + 1)

    def seen(self, rate_per_busy_s: float, *, workers: int, memory: int = 30) -> Capacity:
        """Learn from one window: `workers` workers each trained `rate_per_busy_s` in a busy second.

        A running mean over the last `memory` windows. What cannot be a speed
        (zero, negative, NaN) is ignored: a lying reading must not move the plan.
        """
        if not (math.isfinite(rate_per_busy_s) and rate_per_busy_s > 0) or workers < 1:
            return self
        # A worker among n is slowed by the others; undo that to get its speed alone.
        alone = rate_per_busy_s * (1 + self.contention * (workers - 1))
        count = min(self.observations + 1, memory)
        mean = self.rate_per_worker + (alone - self.rate_per_worker) / count
        return replace(self, rate_per_worker=mean, observations=count)
