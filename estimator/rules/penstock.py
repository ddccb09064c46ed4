"""`penstock`: roll pool sizes through the queue over likely futures, and take the cheapest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from estimator.planner.memory import PlannerMemory, noted
from estimator.reason import Reason
from estimator.rules.plain import Plain
from estimator.rules.rule import Rule
from estimator.rules.settle import Settling
from estimator.situation import Limits, Situation, Sizing

if TYPE_CHECKING:
    from estimator.planner.planning import Plan, Planner

LATE_AT_LIMIT = 0.001
"""With `workers_max` workers and more than this share late to be expected, the limit binds."""


@dataclass(frozen=True, slots=True)
class PenstockMemory:
    """What the rule remembers between ticks."""

    settling: Settling = field(default_factory=Settling)
    planner: PlannerMemory = field(default_factory=PlannerMemory)


def penstock(  # noqa: PLR0917 - its options are given by name
    utilisation: float = 0.85,
    catch_up_s: float = 60.0,
    settle_s: float = 300.0,
    look_ahead_s: float = 300.0,
    season_s: float = 86_400.0,
    late_share_target: float | None = None,
    price: float | None = None,
    step_up_max: float | None = None,
    step_down_max: float | None = None,
    explains: bool = True,
) -> Rule[PenstockMemory]:
    """The pool that is cheapest in GPU time, lateness and resizes over the next minutes.

    The price of lateness follows from `late_share_target` (the SLO's, unless given) and from
    what was late over the last week; `price` fixes it. `season_s` is the length of a day.
    No plan adds more than `step_up_max` workers nor takes more than `step_down_max`. Without `explains` it
    decides the same and does not say which traffic would change that: for simulations of many jobs.
    The first four rule only while there is no model of the traffic: too little history, or a
    forecast that has been far off lately.
    """
    planner = cache(lambda: _planner(season_s, explains))
    plain = Plain(utilisation, catch_up_s, settle_s, look_ahead_s)

    def size(seen: Situation, memory: PenstockMemory) -> tuple[Sizing, PenstockMemory]:
        told, seen = seen, planner().grained(stepped(seen, step_up_max, step_down_max))
        known = noted(seen, memory.planner, season_s=season_s)
        model, known = planner().model(seen, known)
        if model is not None and planner().is_due(seen, model, known):
            target = seen.slo.late_share_target if late_share_target is None else late_share_target
            in_force = known.budget.price(target) if price is None else price
            plan, known = planner().plan(seen, model, known, price=in_force)
            known = _explained(known, seen, _numbers(plan, known, in_force, target))
        held = known.held
        if model is None or held is None or known.scores.is_bad:
            # The planner goes on planning, unheard: that is how it shows that it is good again.
            sizing, settling = plain.size(seen, memory.settling)
            why = Reason.NO_FORECAST if model is None else Reason.BAD_FORECAST
            workers = min(max(sizing.workers, seen.limits.workers_min), seen.limits.workers_max + 1)
            return replace(sizing, workers=workers, notes=(why,)), PenstockMemory(settling, known)
        # One more than there may be tells whoever applies the limits that they bind.
        binds = held.workers == told.limits.workers_max and held.numbers["late_share"] > LATE_AT_LIMIT
        sizing = Sizing(held.workers + binds, held.reason, held.numbers, _notes(told, seen, held.workers))
        return sizing, PenstockMemory(planner=known)

    return Rule("penstock", PenstockMemory, size, foresees=True, prepare=lambda: planner().prepare())


def _planner(season_s: float, explains: bool) -> Planner:
    # Loaded at the first decision: it brings a compiler, and most commands never plan.
    from estimator.planner.planning import Planner  # noqa: PLC0415

    return Planner(season_s=season_s, explains=explains)


def _explained(known: PlannerMemory, seen: Situation, numbers: dict[str, float]) -> PlannerMemory:
    if known.held is None:
        return known
    reason = _reason(seen, known.held.workers, numbers["rate_at_lead_p50"])
    return replace(known, held=replace(known.held, reason=reason, numbers=numbers))


def stepped(seen: Situation, up_max: float | None, down_max: float | None) -> Situation:
    """The situation with limits no further away than one step; the limits themselves come first."""
    limits, requested = seen.limits, seen.requested
    if up_max is None and down_max is None:
        return seen
    most = limits.workers_max if up_max is None else requested + max(int(up_max), 1)
    least = limits.workers_min if down_max is None else requested - max(int(down_max), 1)
    most = min(max(most, limits.workers_min), limits.workers_max)
    least = max(min(least, limits.workers_max), limits.workers_min)
    return replace(seen, limits=Limits(least, most))


def _notes(told: Situation, seen: Situation, workers: int) -> tuple[Reason, ...]:
    """`told` has the operator's limits, `seen` those of one step."""
    notes = []
    if seen.limits != told.limits and workers in (seen.limits.workers_min, seen.limits.workers_max):
        notes.append(Reason.AT_STEP)
    if seen.slo.fresh_within_s < seen.lead_time_s:
        notes.append(Reason.SLO_BELOW_LEAD_TIME)
    return tuple(notes)


def _reason(seen: Situation, workers: int, coming: float) -> Reason:
    if workers > seen.requested:
        able = seen.capacity.samples_per_s(seen.requested)
        if seen.lag > seen.rate_per_s * seen.slo.fresh_within_s / 2 and coming <= able:
            return Reason.CATCH_UP
        return Reason.TRAFFIC_RISE if seen.rate_per_s > able else Reason.FORECAST_RISE
    if workers < seen.requested:
        return Reason.FORECAST_FALL
    return Reason.STEADY


def _numbers(plan: Plan, known: PlannerMemory, price: float, target: float) -> dict[str, float]:
    """Why this many: demand, price, and what one worker less or more would have come to."""
    choice, futures = plan.choice, plan.futures
    last = len(futures.typical) - 1
    numbers = {
        "demand_per_s": float(futures.chances @ futures.rates.mean(axis=1)),
        "rate_at_lead_p50": float(futures.typical[last]),
        "rate_at_lead_p95": futures.quantile(0.95, last),
        "rate_at_lead_p99": futures.quantile(0.99, last),
        "price": price,
        "late_share_week": known.budget.late_share(target),
        "late_share_target": target,
        "trust_in_forecast": known.scores.trust,
        "workers": choice.best.workers,
        "cost": choice.best.cost,
        "late_share": choice.best.late_share,
        "late_share_least": choice.late_share_least,
    }
    others = (("one_fewer", choice.fewer), ("one_more", choice.more), ("as_it_is", choice.stay))
    for name, other in others:
        if other is not None:
            numbers |= {
                f"workers_{name}": other.workers,
                f"cost_{name}": other.cost,
                f"late_share_{name}": other.late_share,
            }
    for name, factor in (("one_fewer", choice.factor_fewer), ("one_more", choice.factor_more)):
        if factor is not None:
            numbers[f"traffic_factor_{name}"] = factor
    return numbers
