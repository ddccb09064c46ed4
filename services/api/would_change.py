"""What would make the next decision another one, in sentences for people."""

from __future__ import annotations

from services.control.types import Reason
from services.controller.views.decision import DecisionView
from services.settings import JobSettings

_IF: dict[Reason, str] = {
    Reason.AT_MINIMUM: "A lower workers_min.",
    Reason.AT_MAXIMUM: "A higher workers_max.",
    Reason.AT_PARTITIONS: "More partitions, or leases, with which workers may outnumber partitions.",
    Reason.AT_STALENESS: "A higher staleness_batches_max, or a lower worker.staleness.",
    Reason.AT_PLATFORM: "Another disruption budget, or other bounds of the platform's own.",
    Reason.AT_STEP: "Time: the rest follows with the next plans. Or a higher step limit.",
    Reason.RESIZE_BUDGET: "Time, until fewer resizes lie within the last day. Or a higher budget.",
    Reason.RESIZE_RATE: "Time, until fewer resizes lie within the last hour. Or a higher limit.",
    Reason.FLEET_RESIZE_RATE: "Time, until the jobs together have fewer resizes within the last hour.",
    Reason.FLEET_SHARE: "GPUs that other jobs give back, a larger fleet, or a larger weight of this job.",
    Reason.FLEET_MOVE: "Time: as many workers of the other GPU type must be ready before these leave.",
    Reason.AT_REACH: "Workers that have been seen at the size in force: the next one is then known.",
    Reason.STALE_METER: "Traffic that can be measured again.",
    Reason.NO_FORECAST: "Enough history for a forecast.",
    Reason.BAD_FORECAST: "Forecasts that come true again.",
    Reason.FALLBACK_FORECAST: "The first forecasting model, once it speaks again.",
    Reason.SLO_BELOW_LEAD_TIME: "Standbys, a pool that starts faster, or more time for a sample to wait.",
    Reason.SETTLING: "Time, if the smaller size stays enough; more traffic ends the wait.",
    Reason.RECOMMEND_ONLY: "The mode `act`: then the plan is carried out.",
    Reason.PAUSED: "Resuming the job.",
    Reason.OVERRIDE: "The end of the override.",
}


def would_change(plan: DecisionView, job: JobSettings) -> list[str]:
    """Most telling first: other traffic, then what binds."""
    said = [*_traffic(plan), *_breaker(plan)]
    for reason in dict.fromkeys((plan.reason, *plan.notes)):
        if reason is Reason.NO_GAIN:
            said.append(f"A wider bottleneck: it is {plan.bottleneck.value.replace('_', ' ')}.")
        elif reason in _IF:
            said.append(_IF[reason])
    if plan.reason is Reason.FIXED:
        said.append(f"Another rule than {job.scaling.rule}.")
    return said


def _traffic(plan: DecisionView) -> list[str]:
    """By the planner's own trial of other traffic; without one, by what the pool planned can train."""
    numbers = plan.numbers
    said: list[str] = []
    more, fewer = numbers.get("traffic_factor_one_more"), numbers.get("traffic_factor_one_fewer")
    if more is not None:
        said.append(f"Traffic {more - 1:.0%} higher than foreseen: a larger pool would be the cheaper one.")
    if fewer is not None:
        said.append(f"Traffic {1 - fewer:.0%} lower than foreseen: a smaller pool would be the cheaper one.")
    demand, able = numbers.get("demand_per_s"), numbers.get("capacity_planned_per_s")
    if not said and demand is not None and able is not None:
        low = able * (1 - (numbers.get("capacity_margin") or 0.0))
        said.append(
            f"A demand beyond {low:,.0f} samples/s, which the pool planned is for; it is {demand:,.0f}."
        )
    return said


def _breaker(plan: DecisionView) -> list[str]:
    waits = [plan.numbers.get(f"breaker_{way}_wait_s") for way in ("up", "down")]
    left_s = [wait for wait in waits if wait is not None]
    if Reason.BREAKER_OPEN not in (plan.reason, *plan.notes) or not left_s:
        return []
    return [f"A resize that works: one is tried in {max(left_s):.0f} s."]
