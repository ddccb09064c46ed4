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
class Dealt:
    """Whole partitions, dealt evenly by number, as Kafka's consumer groups do.

    The worker with the most partitions falls behind first, and with it the job: 20 workers on 64
    partitions carry no more than 16 do, since one of them has four.

    >>> deal = Dealt(partitions=64)
    >>> [round(deal.worth(n), 1) for n in (16, 20, 21, 22, 32, 70)]
    [16.0, 16.0, 16.0, 21.3, 32.0, 64.0]
    """

    partitions: int
    heaviest: float = 0.0
    """The share of the traffic that is on one partition: no more than one worker trains it."""

    def worth(self, workers: int) -> float:
        """How many evenly loaded workers do as much before the first one falls behind."""
        if workers <= 0:
            return 0.0
        most = math.ceil(self.partitions / min(workers, self.partitions))
        return 1.0 / max(most / self.partitions, self.heaviest)


@dataclass(frozen=True, slots=True)
class LearnedCapacity(Capacity):
    """C_low(n) of the throughput model, and no more than that of the largest n it may be extrapolated to.

    `rate_per_worker` and `contention` are what the formula above would be called with, for rules
    that need a formula.
    """

    model: ThroughputModel = field(kw_only=True)
    reach: int = field(kw_only=True)
    slo_broken: bool = False
    dealt: Dealt | None = None
    """None where every worker takes what it can."""

    @classmethod
    def of(
        cls,
        model: ThroughputModel,
        *,
        slo_broken: bool,
        workers_max: int,
        dealt: Dealt | None = None,
        requested: int = 0,
    ) -> LearnedCapacity:
        """What `model` knows; the limit of extrapolation is further out while the SLO is broken.

        It bounds growth: workers that were `requested` before the first of them was seen are not called
        off because nobody has seen so many yet.
        """
        reach = model.reach(slo_broken=slo_broken)
        return cls(
            model.samples_per_s(1),
            min(model.contention, CONTENTION_MAX),
            model=model,
            reach=workers_max if reach is None else max(reach, requested),
            slo_broken=slo_broken,
            dealt=dealt,
        )

    def samples_per_s(self, workers: int) -> float:
        """C_low(n), flat beyond the reach: what nobody has come near to is not counted on.

        While the SLO is broken there is less to lose: then it is C(n), for a margin that grows with
        the distance would keep a pool from ever trying more.
        """
        reached = min(workers, self.reach)
        rate = self.model.samples_per_s(reached) if self.slo_broken else self.model.low(reached)
        if self.dealt is None or workers <= 0:
            return rate
        return rate * min(1.0, self.dealt.worth(workers) / workers)

    def workers_for(self, rate_per_s: float, *, workers_max: int) -> int:
        """As the model says: within its reach; where no size carries the rate, the one that trains most."""
        if self.dealt is None:
            return self.model.workers_for(
                rate_per_s, workers_max=workers_max, slo_broken=self.slo_broken, reach=self.reach
            )
        if not rate_per_s > 0:
            return 0
        rates = [self.samples_per_s(n) for n in range(min(self.reach, workers_max) + 1)]
        enough = next((n for n, rate in enumerate(rates) if rate >= rate_per_s * (1 - 1e-9)), None)
        if enough is not None:
            return enough
        most = max(range(len(rates)), key=rates.__getitem__)  # the fewest of those that train the most
        return workers_max + 1 if most == workers_max else most
