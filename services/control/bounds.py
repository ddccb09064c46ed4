"""From what a rule wants to what is planned: the operator's word, the job's limits, the safety limits.

An operator who has spoken, by a pause or an override, is not held back by the safety limits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.situation import Limits, Sizing
from services.control.breaker import BreakerPhase
from services.control.safety import SafetyMemory, restrained
from services.control.types import Observation, Policy, Reason, Shuffle


@dataclass(frozen=True, slots=True)
class Bounded:
    """A size that may be planned, and which bounds it met."""

    workers: int
    """Standbys included."""
    standbys: int
    sizing: Sizing
    notes: tuple[Reason, ...] = ()


def limits_of(seen: Observation, policy: Policy) -> Limits:
    """The operator's, or what platform, partitions and staleness leave of them.

    What a pool cannot shrink below is not asked for at every tick: it stays, whatever else is allowed.
    """
    kept = min(seen.pool.least, seen.pool.requested)
    most = max(kept, min([policy.limits.workers_max, *_caps(seen, policy).values()]))
    return Limits(max(kept, min(policy.limits.workers_min, most)), most)


def _caps(seen: Observation, policy: Policy) -> dict[Reason, int]:
    """What else bounds the pool, in the order in which it is named when several do."""
    caps = {}
    partitions = len(seen.traffic.partition_rates)
    if policy.shuffle is not Shuffle.LEASES and partitions > 0:
        # Kafka gives a partition to one worker: more workers than partitions idle.
        caps[Reason.AT_PARTITIONS] = partitions
    if policy.workers_unstale_max is not None:
        caps[Reason.AT_STALENESS] = policy.workers_unstale_max
    if seen.pool.most is not None:
        caps[Reason.AT_PLATFORM] = seen.pool.most
    return caps


def bounded(
    sizing: Sizing,
    seen: Observation,
    policy: Policy,
    limits: Limits,
    safety: SafetyMemory,
    *,
    standbys: int = 0,
    standbys_now: int = 0,
) -> Bounded:
    """What of the rule's size may be planned now, with `standbys` beside it where they fit.

    What the fleet does not grant is not planned, whoever asks for it: those GPUs are others'.
    """
    plan = _allowed(sizing, seen, policy, limits, safety, standbys=standbys, standbys_now=standbys_now)
    if seen.fleet_max is None or plan.workers <= seen.fleet_max or plan.sizing.reason is Reason.PAUSED:
        return plan
    most = max(seen.fleet_max, min(limits.workers_min, plan.workers))
    training = min(plan.workers - plan.standbys, most)
    numbers = {**plan.sizing.numbers, "fleet_asked": float(plan.workers)}
    return Bounded(
        most, most - training, replace(plan.sizing, reason=Reason.FLEET_SHARE, numbers=numbers), plan.notes
    )


def _allowed(
    sizing: Sizing,
    seen: Observation,
    policy: Policy,
    limits: Limits,
    safety: SafetyMemory,
    *,
    standbys: int,
    standbys_now: int,
) -> Bounded:
    """By the operator's word, the job's limits and the safety limits."""
    requested = seen.pool.requested
    sizing = _steered(sizing, seen, policy, training=requested - standbys_now)
    if sizing.reason is Reason.PAUSED:
        return Bounded(requested, standbys_now, sizing)
    training, bound = _within(sizing, limits, seen, policy)
    standbys = min(standbys, limits.workers_max - training)
    planned = training + standbys
    notes = () if bound is None else (bound,)
    if sizing.reason is Reason.OVERRIDE:
        return Bounded(planned, standbys, sizing, notes)
    allowed, held = restrained(
        planned,
        safety,
        policy.safety,
        now_s=seen.at_s,
        requested=requested,
        must=min(max(requested, limits.workers_min), limits.workers_max),
        elsewhere=seen.resizes_elsewhere,
        reserved=seen.resizes_reserved,
    )
    if held is None:
        return Bounded(allowed, standbys, sizing, notes)
    # Who is there trains before anyone stands by; waking a standby is no resize.
    training, wanted = max(allowed - standbys, min(training, allowed)), training
    sizing = replace(sizing, numbers={**sizing.numbers, "rule_workers": float(wanted)})
    if allowed == requested:  # what holds the pool is what decided
        return Bounded(allowed, allowed - training, replace(sizing, reason=held), notes)
    return Bounded(allowed, allowed - training, sizing, (*notes, held))


def safety_numbers(safety: SafetyMemory, policy: Policy, now_s: float) -> dict[str, float]:
    """How much of the limits in force is used up; what a breaker that is not closed waits for."""
    numbers = {}
    if policy.safety.resizes_per_hour is not None:
        numbers["resizes_hour"] = float(safety.hour.at(now_s))
    if policy.safety.resizes_per_day is not None:
        numbers["resizes_day"] = float(safety.day.at(now_s))
    for name, breaker in (("up", safety.up), ("down", safety.down)):
        if breaker.phase(now_s) is not BreakerPhase.CLOSED and breaker.until_s is not None:
            numbers[f"breaker_{name}_wait_s"] = max(0.0, breaker.until_s - now_s)
    return numbers


def _steered(sizing: Sizing, seen: Observation, policy: Policy, *, training: int) -> Sizing:
    """What an operator set wins over the rule; what the rule wanted is kept among the numbers."""
    override = policy.override
    if override is not None and seen.at_s < override.until_s:
        size, reason = override.workers, Reason.OVERRIDE
    elif policy.paused:
        size, reason = training, Reason.PAUSED
    else:
        return sizing
    return Sizing(size, reason, {**sizing.numbers, "rule_workers": float(sizing.workers)})


def _within(sizing: Sizing, limits: Limits, seen: Observation, policy: Policy) -> tuple[int, Reason | None]:
    """Within the limits, and which of them binds."""
    if sizing.workers < limits.workers_min:
        ours = limits.workers_min <= policy.limits.workers_min
        return limits.workers_min, Reason.AT_MINIMUM if ours else Reason.AT_PLATFORM
    if sizing.workers > limits.workers_max:
        if limits.workers_max >= policy.limits.workers_max:
            return limits.workers_max, Reason.AT_MAXIMUM
        caps = _caps(seen, policy)
        return limits.workers_max, min(caps, key=lambda reason: caps[reason])
    return sizing.workers, None
