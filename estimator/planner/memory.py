"""What the planner remembers between ticks; all else is rebuilt from the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from estimator.planner.budget import ErrorBudget, late_part
from estimator.planner.scores import Scores
from estimator.reason import Reason
from estimator.situation import Situation


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
    filling, end_s = memory.filling, 0.0 if seen.history is None else seen.history.end_s
    new = end_s != filling.since_s
    part_s = max(seen.now_s - end_s, 0.0) if new else span_s
    if new:
        filling = Filling(end_s)
    filling = replace(
        filling, samples=filling.samples + seen.rate_per_s * part_s, seconds=filling.seconds + part_s
    )
    return replace(
        memory, at_s=seen.now_s, lag_s=seen.lag_s, overwhelmed=overwhelmed, filling=filling, budget=budget
    )


def _overwhelmed(seen: Situation, memory: PlannerMemory) -> bool:
    """Whether traffic is beyond all workers, or was, and what it left is still late."""
    if memory.overwhelmed and seen.lag_s > seen.slo.fresh_within_s:
        return True
    able, most = seen.capacity.samples_per_s, seen.limits.workers_max
    # All of them may train less than fewer do.
    return seen.rate_per_s > able(most) and all(seen.rate_per_s > able(fewer) for fewer in range(most))
