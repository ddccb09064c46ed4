"""From a job's decision to its word to the fleet: what it wishes on each type, what it loses with less."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from estimator.fleet import NOTHING, Configuration, Standing, Wish
from estimator.fleet.moving import SPAN_S, Rates, fewest, kept_by_move, late_demand, with_move
from services.control.safety import Allowance
from services.control.types import Decision, Observation, Reason

UNLIMITED = Allowance()
PATIENCE = 2.0
"""Times the lead time, after which a resize that pauses training is not waited for any more."""


@dataclass(frozen=True, slots=True)
class Word:
    """What one job tells at a tick. The wish is made of it where there is not enough for all."""

    decision: Decision
    standing: Standing
    seen: Observation
    fresh_within_s: float
    kind: str
    """The type that it is on, or moves to."""
    kinds: tuple[str, ...]
    """The types that it can be moved to, that one among them."""
    kept: int = 0
    """Workers of its guarantee that are kept for it: wished for too, so that nobody else is given them."""
    allowance: Allowance = UNLIMITED
    """What its safety limits leave of its resizes."""
    lent: int = 0
    """Standbys that it does without: they are lent."""

    @property
    def planned(self) -> int:
        """Workers that it wishes, the standbys that it lends left out."""
        return self.decision.planned - self.lent

    @property
    def standbys(self) -> int:
        """How many of those stand by."""
        return self.decision.standbys - self.lent

    @property
    def home(self) -> str:
        """The type that holds its guarantee: where it runs, for a job that cannot move."""
        return next((kind for kind in self.standing.gpu_types if kind in self.kinds), self.kind)

    @property
    def leaving(self) -> dict[str, int]:
        """What it still has of types that it moves away from."""
        return self.seen.pool.elsewhere(self.kind)


def kinds_for(decision: Decision, standing: Standing, seen: Observation, kind: str) -> tuple[str, ...]:
    """The types that a job could run on: those it has a pool for and whose rate is known, and its home."""
    known = decision.state.throughput
    kinds = [other for other in seen.pool.by_type if standing.may_use(other)]
    home = next((other for other in standing.gpu_types if other in kinds), kind)
    return tuple(
        other for other in kinds if other in (kind, home) or known.types.knows(other, known.guess)
    ) or (kind,)


def curve_of(word: Word, gpu_type: str, workers: int) -> Rates:
    """C_low up to so many workers, its running maximum; flat beyond what may be extrapolated to."""
    throughput = word.decision.state.throughput
    model = throughput.types.of(gpu_type, throughput.guess)
    reach = model.reach() or workers
    rates = np.array([model.low(count) for count in range(min(workers, reach) + 1)])
    risen: Rates = np.maximum.accumulate(np.pad(rates, (0, workers + 1 - len(rates)), mode="edge"))
    return risen


def wish_of(word: Word) -> Wish:
    """The demand is what the planned workers would train: that is what the rule sized the pool for.

    Elsewhere the job wishes as many as train that too, and what it would train is told with the move in it.
    A resize that pauses training costs its share of a quarter of an hour, and is not disturbed.
    """
    decision, kind = word.decision, word.kind
    asked = _asked(word)
    workers = max(asked, word.kept if word.home == kind else 0)
    own = curve_of(word, kind, workers)
    demand = float(own[max(0, min(asked, word.planned) - word.standbys)])
    counts, curves = {kind: workers}, {kind: tuple(own.tolist())}
    for other in word.kinds:
        if other != kind:
            counts[other], curves[other] = _elsewhere(word, other, demand)
    homes = dict.fromkeys((word.home, *counts))
    return Wish(
        replace(word.standing, gpu_types=tuple(homes)),
        counts,
        curves,
        demand,
        current=Configuration(kind, decision.requested) if decision.requested else NOTHING,
        pinned=decision.reason is Reason.PAUSED or word.seen.pool.can_leave(kind) or _resizing(word),
        restart=1.0 - min(decision.state.pool.pause_s / SPAN_S, 0.9),
        preferred=kind,
    )


def _asked(word: Word) -> int:
    """Workers that it plans; of a job that is late already, no more than drain its backlog in time."""
    decision, traffic = word.decision, word.seen.traffic
    training = word.planned - word.standbys
    if traffic.lag_s <= word.fresh_within_s or decision.reason is Reason.OVERRIDE or training < 1:
        return word.planned
    coming = max(decision.numbers.get("rate_at_lead_p95", 0.0), traffic.rate_per_s)
    enough = fewest(curve_of(word, word.kind, training), late_demand(coming, traffic.lag))
    return max(enough, 1) + word.standbys


def _elsewhere(word: Word, gpu_type: str, demand: float) -> tuple[int, tuple[float, ...]]:
    """How many it would take on another type, and what they would train, the move included."""
    standing, pool = word.standing, word.decision.state.pool
    promised = standing.guaranteed if gpu_type == word.home else 0
    most = min(standing.workers_max, word.seen.pool.most_by_type.get(gpu_type, standing.workers_max))
    curve = curve_of(word, gpu_type, max(most, promised))
    workers = fewest(curve, demand)
    if word.decision.requested:
        curve = with_move(curve, demand, kept=kept_by_move(pool.lead_time_s), guaranteed=promised)
    return workers, tuple(curve[: max(workers, promised) + 2].tolist())


def _resizing(word: Word) -> bool:
    """In the middle of a resize that pauses training: workers were asked for lately and are not there."""
    pool = word.decision.state.pool
    lately_s = word.decision.at_s - PATIENCE * pool.lead_time_s
    return pool.pause_s > 0 and any(asked_at_s > lately_s for asked_at_s in pool.awaited.values())
