"""C(n), learned: how many samples a second n workers can train, how sure that is, and what limits it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from estimator.throughput.bottleneck import Binding, Bottleneck, Wall, binding_of
from estimator.throughput.fitted import Fitted, unfitted
from estimator.throughput.knowledge import Knowledge
from estimator.throughput.scalability import LawPrior
from estimator.throughput.window import ThroughputWindow

Z = 1.0
"""Standard errors that C_low stays below C."""
STEP = 1.5
"""The extrapolation that the running error stands for; further, it grows with the logarithm."""
MARGIN_MAX = 0.5
SURE_SIZES = 3
SURE_SD = 0.06
UNSURE_SD = 0.15


class Confidence(StrEnum):
    """How far C(n) can be trusted beyond the sizes seen. Used as metric label, so the set is closed."""

    LOW = "low"
    """One size or none, and no step times; or predictions that failed."""
    MEDIUM = "medium"
    """Two sizes, or step times that show the queue."""
    HIGH = "high"
    """Three sizes, and predictions that came true."""


@dataclass(frozen=True)
class ThroughputModel:
    """An immutable value: `seen` returns the next one. No clock, no I/O; stored as it is.

    Ticks are many and windows few, so what follows from the knowledge alone is worked out once.

    >>> model = ThroughputModel.guessed(rate_per_worker=100.0)
    >>> model.workers_for(250.0, workers_max=8), model.confidence
    (3, <Confidence.LOW: 'low'>)
    """

    knowledge: Knowledge

    @classmethod
    def guessed(
        cls, rate_per_worker: float, *, contention: float = 0.02, gpu_type: str = ""
    ) -> ThroughputModel:
        """Before anything was seen: an operator's guess of what a lone worker trains.

        Raises ValueError for a rate that is no speed.
        """
        if not (math.isfinite(rate_per_worker) and rate_per_worker > 0):
            raise ValueError(f"rate_per_worker is {rate_per_worker}; it must be a positive number")
        if not 0 <= contention < 1:
            raise ValueError(f"contention is {contention}; it must be in [0, 1)")
        prior = LawPrior(rate_per_worker, contention)
        return cls(Knowledge(prior, unfitted(prior), gpu_type=gpu_type))

    def seen(self, window: ThroughputWindow) -> ThroughputModel:
        """Learn from one window. What cannot be true is counted in `lies` and changes nothing else."""
        return ThroughputModel(self.knowledge.seen(window))

    def samples_per_s(self, workers: int) -> float:
        """C(n); zero workers train nothing."""
        if workers <= 0:
            return 0.0
        rate, wall = self.knowledge.fitted.capacity(workers), self.knowledge.wall
        return rate if wall is None or not wall.bounds(workers) else min(rate, wall.samples_per_s)

    def low(self, workers: int) -> float:
        """C_low(n) = C(n)·(1 - z·s(n)): what to plan with."""
        known = self._lows.get(workers)
        if known is None:
            known = self._lows[workers] = self.samples_per_s(workers) * (1 - self.margin(workers))
        return known

    @cached_property
    def _lows(self) -> dict[int, float]:
        """C_low of the sizes asked for so far."""
        return {}

    def margin(self, workers: int) -> float:
        """z·s(n): the misfit among sizes seen; beyond them the running error of past predictions.

        That error was made by steps of up to a half more; a longer one is trusted less.
        """
        return _margin(self.knowledge.fitted, self.knowledge.foresight.error_sd, workers)

    def workers_for(
        self, rate_per_s: float, *, workers_max: int, slo_broken: bool = False, reach: int | None = None
    ) -> int:
        """The fewest workers whose C_low carries `rate_per_s`, within `reach` (its own unless given).

        Where none does, the fewest that train the most: more would cost and bring
        nothing, or less. `workers_max + 1` when `workers_max` itself trains the most and
        is not enough; that tells whoever applies the limit that it binds.
        """
        if not rate_per_s > 0:
            return 0
        top = min(reach or self.reach(slo_broken=slo_broken) or workers_max, workers_max)
        if top < 1:
            return workers_max + 1
        wanted = rate_per_s * (1 - 1e-7)  # a demand of exactly C_low(n) stays at n in spite of rounding
        most, most_rate = 0, 0.0
        curve, seen = self.knowledge.fitted.curve, int(min(self.knowledge.fitted.crowd_seen, top))
        seen = seen if self.wall is None else 0
        within = 1 - self.margin(seen)
        for workers in range(1, top + 1):
            # `low`, written out where the margin is the same: rules ask at every tick.
            rate = curve[workers] * within if workers <= seen else self.low(workers)
            if rate >= wanted:
                return workers
            if rate > most_rate:
                most, most_rate = workers, rate
        if (
            (not self.knowledge.sizes or most >= self.knowledge.sizes[-1])
            and self.wall is None
            and slo_broken
        ):
            most = top  # that more would not help is extrapolated: it has to be tried
        return workers_max + 1 if most == workers_max else most

    def reach(self, *, slo_broken: bool = False) -> int | None:
        """How far C(n) may be extrapolated: max(n + 2, 1.5·n) of the largest n tried; None before any was.

        Twice n while only one size has been seen, for there is no other way to see a
        second one, and when the SLO is broken or bound to be, for there is less to lose.
        """
        sizes = self.knowledge.sizes
        if not sizes:
            return None
        tried = sizes[-1]
        factor = 2.0 if slo_broken or len(sizes) == 1 else STEP
        return max(tried + 2, math.floor(factor * tried))

    @cached_property
    def confidence(self) -> Confidence:
        """How far C(n) can be trusted beyond the sizes seen; however often one size is seen, never HIGH."""
        known = self.knowledge
        sizes = len(known.sizes)
        shown = known.fitted.queue is not None and known.steps is not None
        error_sd = known.foresight.error_sd
        if error_sd > UNSURE_SD or sizes == 0 or (sizes == 1 and not shown):
            return Confidence.LOW
        sure = sizes >= SURE_SIZES and known.foresight.scored >= 1 and error_sd <= SURE_SD
        return Confidence.HIGH if sure else Confidence.MEDIUM

    @cached_property
    def contention(self) -> float:
        """σ of the law."""
        return self.knowledge.fitted.contention

    @property
    def sizes_seen(self) -> tuple[int, ...]:
        """The pool sizes that what is known rests on."""
        return self.knowledge.sizes

    @property
    def wall(self) -> Wall | None:
        """The resize that was no use, while it still counts."""
        return self.knowledge.wall

    @cached_property
    def binding(self) -> Binding:
        """What limits the pool as it is now: what the last useless resize met, or what is busiest."""
        known = self.knowledge
        if known.wall is not None:
            return known.wall.binding
        steps = None if known.steps is None else known.steps.parts
        workers = known.workers or 0
        rate = self.samples_per_s(workers)
        loads = {line.name: min(1.0, rate * line.demand_s) for line in known.resources}
        return binding_of(workers=workers, partitions=known.partitions, loads=loads, steps=steps)

    @property
    def bottleneck(self) -> Bottleneck:
        """The kind of it; `binding` names the resource too."""
        return self.binding.bottleneck


def _margin(fitted: Fitted, error_sd: float, workers: int) -> float:
    seen = fitted.crowd_seen
    if seen <= 0:
        return 0.0  # a guess is the operator's word; the first window corrects it
    if workers <= seen:
        return min(Z * fitted.misfit, MARGIN_MAX)
    beyond = math.log(workers / seen) / math.log(STEP)
    return min(Z * max(fitted.misfit, error_sd * beyond), MARGIN_MAX)
