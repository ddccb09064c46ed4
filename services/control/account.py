"""What a decision says of itself: the notes beside its reason, and the numbers that it rested on."""

from __future__ import annotations

from estimator.capacity import LearnedCapacity
from estimator.situation import Limits, Situation, Sizing
from services.control import explained
from services.control.types import ControlState, Mode, Observation, Policy, Reason


def notes(seen: Observation, state: ControlState, policy: Policy, lead_time_s: float) -> tuple[Reason, ...]:
    """What an operator should know of the tick: what it lacked, what it lost, what it may not do."""
    notes = []
    if seen.traffic.degraded:
        notes.append(Reason.DEGRADED_METER)
    if seen.forecast is None:
        notes.append(Reason.NO_FORECAST)
    elif explained.is_bad(seen.forecast):
        notes.append(Reason.BAD_FORECAST)
    elif seen.forecast.trouble or seen.forecast.model != (policy.forecast_model or seen.forecast.model):
        notes.append(Reason.FALLBACK_FORECAST)
    if seen.pool.failures > state.pool_failures:
        notes.append(Reason.WORKERS_LOST)
    if policy.slo.fresh_within_s < lead_time_s:
        notes.append(Reason.SLO_BELOW_LEAD_TIME)
    if policy.mode is Mode.RECOMMEND:
        notes.append(Reason.RECOMMEND_ONLY)
    if seen.pool.can_leave(seen.gpu_type):
        notes.append(Reason.FLEET_MOVE)
    return tuple(notes)


def capacity_notes(capacity: LearnedCapacity, planned: int, limits: Limits) -> tuple[Reason, ...]:
    """What keeps C(n) from allowing more."""
    wall = capacity.model.wall
    if wall is not None and planned >= wall.workers and wall.bounds(planned + 1):
        return (Reason.NO_GAIN,)
    return (Reason.AT_REACH,) if capacity.reach <= planned < limits.workers_max else ()


def numbers(
    seen: Observation, sizing: Sizing, capacity: LearnedCapacity, situation: Situation, planned: int
) -> dict[str, float]:
    traffic, ahead = seen.traffic, seen.forecast
    late = {} if traffic.late_share is None else {"late_share_measured": traffic.late_share}
    scored = {} if ahead is None or ahead.score is None else {"forecast_score": ahead.score}
    return {
        "rate_per_s": traffic.rate_per_s,
        "trained_per_s": traffic.trained_per_s,
        "lag": float(traffic.lag),
        "lag_s": traffic.lag_s,
        **late,
        "capacity_ready_per_s": capacity.samples_per_s(seen.pool.ready),
        "capacity_planned_per_s": capacity.samples_per_s(planned),
        "capacity_margin": capacity.model.margin(planned),
        "capacity_reach": float(capacity.reach),
        "lead_time_s": situation.lead_time_s,
        "pause_s": situation.pause_s,
        **scored,
        **sizing.numbers,
        "workers_most": float(situation.limits.workers_max),
        **_beyond(seen, capacity, situation.limits),
    }


def _beyond(seen: Observation, capacity: LearnedCapacity, limits: Limits) -> dict[str, float]:
    """`beyond_share` of what arrives is more than any pool within the limits trains: it will be late."""
    rate, most = seen.traffic.rate_per_s, limits.workers_max
    if rate <= _trained_by(most, seen, capacity):
        return {}
    able = max(_trained_by(workers, seen, capacity) for workers in range(most + 1))
    return {"beyond_share": 1 - able / rate} if rate > able else {}


def _trained_by(workers: int, seen: Observation, capacity: LearnedCapacity) -> float:
    """What so many train of what arrives; of one partition, no more than one worker, where they are dealt."""
    able, traffic = capacity.model.samples_per_s(workers), seen.traffic
    if capacity.dealt is None or workers <= 0:
        return able
    too_hot = sum(max(rate - able / workers, 0.0) for rate in traffic.partition_rates)
    return min(able, traffic.rate_per_s - too_hot)
