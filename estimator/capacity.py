"""C(n) as a sizing rule sees it: how many samples a second n workers can train."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from estimator.throughput import ThroughputModel

CONTENTION_MAX = 0.99


@dataclass(frozen=True, slots=True)
class Capacity:
    """C(n) = rate_per_worker · n / (1 + contention · (n - 1)): the operator's guess, before anything is seen.

    >>> Capacity(rate_per_worker=100.0, contention=0.0).workers_for(250.0, workers_max=8)
    3
    """

    rate_per_worker: float
    contention: float = 0.02

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


@dataclass(frozen=True, slots=True)
class LearnedCapacity(Capacity):
    """C_low(n) of the throughput model, and no more than that of the largest n it may be extrapolated to.

    `rate_per_worker` and `contention` are what the formula above would be called with, for rules
    that need a formula.
    """

    model: ThroughputModel = field(kw_only=True)
    reach: int = field(kw_only=True)
    slo_broken: bool = False

    @classmethod
    def of(cls, model: ThroughputModel, *, slo_broken: bool, workers_max: int) -> LearnedCapacity:
        """What `model` knows; the limit of extrapolation is further out while the SLO is broken."""
        reach = model.reach(slo_broken=slo_broken)
        return cls(
            model.samples_per_s(1),
            min(model.contention, CONTENTION_MAX),
            model=model,
            reach=workers_max if reach is None else reach,
            slo_broken=slo_broken,
        )

    def samples_per_s(self, workers: int) -> float:
        """C_low(n), flat beyond the reach: what nobody has come near to is not counted on.

        While the SLO is broken there is less to lose: then it is C(n), for a margin that grows with
        the distance would keep a pool from ever trying more.
        """
        if self.slo_broken:
            return self.model.samples_per_s(min(workers, self.reach))
        return self.model.low(min(workers, self.reach))

    def workers_for(self, rate_per_s: float, *, workers_max: int) -> int:
        """As the model says: within its reach; where no size carries the rate, the one that trains most."""
        return self.model.workers_for(rate_per_s, workers_max=workers_max, slo_broken=self.slo_broken)
