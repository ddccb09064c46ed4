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
from estimator.situation import Situation, Sizing

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
    settle_s: float = 120.0,
    look_ahead_s: float = 300.0,
    season_s: float = 86_400.0,
    late_share_target: float | None = None,
    price: float | None = None,
) -> Rule[PenstockMemory]:
    """The pool that is cheapest in GPU time, lateness and resizes over the next minutes.

    The price of lateness follows from `late_share_target` (the SLO's, unless given) and from
    what was late over the last week; `price` fixes it. `season_s` is the length of a day.
    The first four rule only while there is no model of the traffic: too little history, or a
    forecast that has been far off lately.
    """
    planner = cache(lambda: _planner(season_s))
    plain = Plain(utilisation, catch_up_s, settle_s, look_ahead_s)

    def size(seen: Situation, memory: PenstockMemory) -> tuple[Sizing, PenstockMemory]:
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
            return replace(sizing, notes=(why,)), PenstockMemory(settling, known)
        # One more than there may be tells whoever applies the limits that they bind.
        binds = held.workers == seen.limits.workers_max and held.numbers["late_share"] > LATE_AT_LIMIT
        sizing = Sizing(held.workers + binds, held.reason, held.numbers, _notes(seen))
        return sizing, PenstockMemory(planner=known)

    return Rule("penstock", PenstockMemory, size, foresees=True, prepare=lambda: planner().prepare())


def _planner(season_s: float) -> Planner:
    # Loaded at the first decision: it brings a compiler, and most commands never plan.
    from estimator.planner.planning import Planner  # noqa: PLC0415

    return Planner(season_s=season_s)


def _explained(known: PlannerMemory, seen: Situation, numbers: dict[str, float]) -> PlannerMemory:
    if known.held is None:
        return known
    reason = _reason(seen, known.held.workers, numbers["rate_at_lead_p50"])
    return replace(known, held=replace(known.held, reason=reason, numbers=numbers))


def _notes(seen: Situation) -> tuple[Reason, ...]:
    return (Reason.SLO_BELOW_LEAD_TIME,) if seen.slo.fresh_within_s < seen.lead_time_s else ()


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
        "cost": choice.cost,
        "late_share": choice.late_share,
    }
    for name, side in (("fewer", choice.fewer), ("more", choice.more)):
        if side is not None:
            numbers |= {f"cost_one_{name}": side[0], f"late_share_one_{name}": side[1]}
    return numbers
