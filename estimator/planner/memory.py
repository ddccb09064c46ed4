"""What the planner remembers between ticks; all else is rebuilt from the history."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from estimator.planner.budget import ErrorBudget, late_part
from estimator.planner.glimpse import Glimpses
from estimator.planner.scores import Scores
from estimator.reason import Reason
from estimator.situation import Situation
from forecasting.history import TrafficHistory


@dataclass(frozen=True, slots=True)
class Filling:
    """The bin after the history's end, as far as it has come."""

    since_s: float = 0.0
    samples: float = 0.0
    seconds: float = 0.0

    @property
    def rate_per_s(self) -> float | None:
        """Mean rate so far; None when nothing was seen of it."""
        return self.samples / self.seconds if self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Held:
    """The plan in force and what it was made from."""

    workers: int
    reason: Reason
    numbers: Mapping[str, float]
    at_s: float
    bin_s: float
    """End of the history that it knew."""
    live: float
    surprise: float
    requested: int
    ready: int
    expected: float | None = None
    """Log rate that the bin after the history was expected to have before anything was seen of it."""


@dataclass(frozen=True, slots=True)
class PlannerMemory:
    """What the planner remembers between ticks. All else is rebuilt from the history."""

    fitted_at_s: float | None = None
    """The model in use is the one fitted to the history up to here."""
    at_s: float | None = None
    lag_s: float = 0.0
    overwhelmed: bool = False
    """More came than all workers that there may be can train, and it has not been worked off yet."""
    filling: Filling = field(default_factory=Filling)
    glimpses: Glimpses = field(default_factory=Glimpses)
    budget: ErrorBudget = field(default_factory=ErrorBudget)
    scores: Scores = field(default_factory=Scores)
    held: Held | None = None


def noted(seen: Situation, memory: PlannerMemory, *, season_s: float) -> PlannerMemory:
    """The memory with this tick's reading: what was late, what arrived since the last whole bin.

    What is late because no pool could have trained it says nothing about the price of lateness: counted,
    one such hour would make a week dear and bring nothing back.
    """
    span_s = 0.0 if memory.at_s is None else max(seen.now_s - memory.at_s, 0.0)
    overwhelmed = _overwhelmed(seen, memory)
    budget = memory.budget
    if not overwhelmed:
        trained = max(seen.trained_per_s, 0.0) * min(span_s, seen.slo.fresh_within_s)
        late = trained * late_part(memory.lag_s, seen.lag_s, seen.slo.fresh_within_s)
        budget = budget.seen(seen.now_s, trained, late, season_s=season_s)
    filling, glimpses = _filled(seen, memory, span_s)
    return replace(
        memory, at_s=seen.now_s, lag_s=seen.lag_s, overwhelmed=overwhelmed, filling=filling,
        glimpses=glimpses, budget=budget,
    )  # fmt: skip


def _filled(seen: Situation, memory: PlannerMemory, span_s: float) -> tuple[Filling, Glimpses]:
    """What is known of the bin that is filling, and how much that used to say."""
    filling, glimpses, history = memory.filling, memory.glimpses, seen.history
    end_s = 0.0 if history is None else history.end_s
    new = end_s != filling.since_s
    part_s = max(seen.now_s - end_s, 0.0) if new else span_s
    if new:
        glimpses = glimpses.closed(_rate_of_next(history, filling.since_s))
        filling = Filling(end_s)
    filling = replace(
        filling, samples=filling.samples + seen.rate_per_s * part_s, seconds=filling.seconds + part_s
    )
    if history is not None and filling.rate_per_s is not None:
        glimpses = glimpses.seen(filling.rate_per_s, filling.seconds / history.step_s)
    return filling, glimpses


def _rate_of_next(history: TrafficHistory | None, end_s: float) -> float | None:
    """Of the bin that began at `end_s`, if it is the last one; None where it is not known."""
    if history is None or not len(history.rates) or abs(history.end_s - end_s - history.step_s) > 1e-6:
        return None
    rate = float(history.rates[-1])
    return None if math.isnan(rate) else rate


def _overwhelmed(seen: Situation, memory: PlannerMemory) -> bool:
    """Whether traffic is beyond all workers, or was, and what it left is still late."""
    if memory.overwhelmed and seen.lag_s > seen.slo.fresh_within_s:
        return True
    able, most = seen.capacity.samples_per_s, seen.limits.workers_max
    # All of them may train less than fewer do.
    return seen.rate_per_s > able(most) and all(seen.rate_per_s > able(fewer) for fewer in range(most))
