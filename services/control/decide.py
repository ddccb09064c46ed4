"""One pure tick: what is seen and remembered in, what to do and to remember out."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from estimator.capacity import Dealt, LearnedCapacity
from estimator.situation import Limits, Situation, Sizing
from estimator.throughput import Guess
from services.control import explained, gpu_move, standby
from services.control.bounds import bounded, limits_of, safety_numbers
from services.control.learned import PoolMemory, Throughput
from services.control.pool_watch import lead_times, pool_seen
from services.control.safety import PoolNow, SafetyMemory, judged
from services.control.throughput_windows import can_be, throughput_seen
from services.control.types import (
    ControlState,
    Decision,
    Mode,
    Observation,
    Policy,
    PoolResize,
    Reason,
    Shuffle,
    WorkerReport,
)
from services.control.victims import victims_of
from shuffler.assignment import Assignment
from shuffler.rebalance import rebalance

ROOM = 0.9
"""A pool that could train this much more than arrives falls behind for other reasons than traffic."""


def decide(seen: Observation, state: ControlState, policy: Policy) -> Decision:
    """The pool size and the assignment to want now, why, and what to remember.

    Deterministic: the same arguments give the same decision, its id included,
    so a tick repeated after a crash asks for the same thing.
    """
    ready = seen.pool.ready_names
    throughput, capacity = _throughput(seen, ready, state, policy)
    pool = _pool(seen, ready, state, policy, capacity)
    limits = limits_of(seen, policy)
    safety = _judged(seen, state, policy, capacity, pool)
    situation = _situation(seen, state, policy, capacity=capacity, memory=pool, limits=limits)
    wanted, memory = _size(seen, state, policy, situation)
    kept = state.standbys + state.standbys_lent
    standbys, why = standby.wanted(
        wanted, seen, policy, capacity, kept=kept, lead_time_s=situation.lead_time_s
    )
    lent = min(standbys, seen.standbys_lent)
    plan = bounded(
        wanted,
        seen,
        policy,
        limits,
        safety,
        standbys=standbys - lent,
        standbys_now=_standbys_now(seen, state),
    )
    planned, training = plan.workers, plan.workers - plan.standbys
    sizing = gpu_move.named(plan.sizing, seen, state)
    release = gpu_move.may_leave(seen, planned)
    victims = () if planned == seen.pool.requested else victims_of(seen, planned)
    victims += gpu_move.left_behind(seen) if release else ()
    resize = _resize(seen, state, policy, planned, victims, release=release)
    assignment = _assignment(seen, state, policy, training, leaving=victims if resize else ())
    notes = (
        *sizing.notes,
        *plan.notes,
        *_notes(seen, state, policy, situation.lead_time_s),
        *_capacity_notes(capacity, training, limits),
    )
    return Decision(
        id=_decision_id(seen, state),
        job=seen.job,
        at_s=seen.at_s,
        planned=planned,
        requested=seen.pool.requested,
        ready=len(ready),
        reason=sizing.reason,
        notes=tuple(dict.fromkeys(notes)),
        numbers={
            **_numbers(seen, sizing, capacity, situation, training),
            "workers_most": float(limits.workers_max),
            **_beyond(seen, capacity, limits),
            **why,
            **({"standbys_lent": float(lent)} if lent else {}),
            **safety_numbers(safety, policy, seen.at_s),
        },
        resize=resize,
        assignment=None if assignment == state.assignment else assignment,
        state=ControlState(
            sequence=state.sequence + 1,
            planned=planned,
            standbys=plan.standbys,
            standbys_lent=lent,
            rule=policy.rule.name,
            memory=memory,
            throughput=throughput,
            pool=pool,
            assignment=assignment,
            pool_failures=seen.pool.failures,
            safety=safety
            if planned == seen.pool.requested or resize is None
            else _resized(safety, seen, planned),
            resized=resize or state.resized,
            gpu_type=seen.gpu_type,
        ),
        confidence=capacity.model.confidence,
        bottleneck=capacity.model.bottleneck,
        standbys=plan.standbys,
        forecast=explained.used(seen.forecast),
    )


def _standbys_now(seen: Observation, state: ControlState) -> int:
    """How many of those asked for are there to stand by: training comes first where some were refused."""
    if state.planned is None:
        return 0
    return min(state.standbys, max(0, seen.pool.requested - (state.planned - state.standbys)))


def _size(
    seen: Observation, state: ControlState, policy: Policy, situation: Situation
) -> tuple[Sizing, object]:
    """Ask the rule, unless traffic is unknown: then nothing may move."""
    memory = state.memory if state.rule == policy.rule.name else policy.rule.memory()
    if seen.at_s - seen.traffic.at_s > policy.stale_after_s:
        held = (
            state.planned - state.standbys
            if state.planned is not None
            else max(seen.pool.requested, situation.limits.workers_min)
        )
        return Sizing(held, Reason.STALE_METER), memory
    sizing, memory = policy.rule.size(situation, memory)
    if state.planned is None and seen.pool.requested == 0:
        sizing = replace(sizing, reason=Reason.COLD_START)
    return sizing, memory


def _situation(
    seen: Observation,
    state: ControlState,
    policy: Policy,
    *,
    capacity: LearnedCapacity,
    memory: PoolMemory,
    limits: Limits,
) -> Situation:
    """Of the workers that train or are to; a rule knows of no others."""
    traffic, pool = seen.traffic, seen.pool
    standbys = _standbys_now(seen, state)
    requested = pool.requested - standbys
    starting = pool.starting_since_s
    if state.standbys:  # the youngest are on their way to stand by
        starting = tuple(sorted(starting)[: max(0, requested - len(memory.ready))])
    ready = set(memory.ready)
    lead_time_s, lead_times_s = lead_times(memory, seen.at_s, capacity.model.knowledge.gpu_type)
    busy = {report.worker: report.busy for report in seen.reports if report.worker in ready}
    return Situation(
        now_s=seen.at_s,
        rate_per_s=traffic.rate_per_s,
        lag=float(traffic.lag),
        lag_s=traffic.lag_s,
        trained_per_s=traffic.trained_per_s,
        requested=requested,
        ready=len(ready),
        busy=fmean(busy.values()) if busy else None,
        capacity=capacity,
        slo=policy.slo,
        limits=limits,
        lead_time_s=lead_time_s,
        lead_times_s=lead_times_s,
        pause_s=memory.pause_s,
        forecast=explained.heeded(seen.forecast),
        partition_lags=traffic.partition_lags,
        busy_by_worker=busy,
        history=seen.history,
        starting_since_s=starting,
        standbys=min(standbys, pool.standing_by),
    )


def _throughput(
    seen: Observation, ready: tuple[str, ...], state: ControlState, policy: Policy
) -> tuple[Throughput, LearnedCapacity]:
    """What is known of C(n) after this tick."""
    prior = policy.capacity_prior
    guess = Guess(prior.rate_per_worker, prior.contention, policy.lone_rates, policy.profile)
    dealt = _dealt(seen, policy)
    partitions = None if dealt is None else dealt.partitions
    throughput = (
        throughput_seen(state.throughput, seen, ready, guess, partitions=partitions)
        if policy.learns
        else Throughput(guess=guess)
    )
    if seen.gpu_type:  # on the way to another type, the workers to come are what is planned with
        throughput = replace(throughput, gpu_type=seen.gpu_type)
    lost = policy.slo.is_lost(
        lag_s=seen.traffic.lag_s,
        rate_per_s=seen.traffic.rate_per_s,
        able_per_s=throughput.model.samples_per_s(len(ready)),
        lead_time_s=state.pool.lead_time_s,
    )
    most = policy.limits.workers_max
    capacity = LearnedCapacity.of(
        throughput.model,
        slo_broken=lost,
        workers_max=most,
        dealt=dealt,
        requested=seen.pool.requested,
    )
    return throughput, capacity


def _dealt(seen: Observation, policy: Policy) -> Dealt | None:
    """How Kafka shares the partitions out, where that is not for Penstock to do."""
    rates = seen.traffic.partition_rates
    if policy.shuffle is Shuffle.LEASES or not rates:
        return None
    total = sum(rates)
    return Dealt(len(rates), max(rates) / total if total > 0 else 0.0)


def _pool(
    seen: Observation,
    ready: tuple[str, ...],
    state: ControlState,
    policy: Policy,
    capacity: LearnedCapacity,
) -> PoolMemory:
    """What is known of the pool after this tick."""
    if not policy.learns:
        return PoolMemory(lead_time_s=policy.lead_time_s, pause_s=policy.pause_s, ready=ready)
    fewest = min(len(state.pool.ready), len(ready))
    return pool_seen(
        state.pool,
        seen,
        ready,
        lead_time_stated_s=policy.lead_time_s,
        pause_stated_s=policy.pause_s,
        gpu_type=capacity.model.knowledge.gpu_type,
        has_room=seen.traffic.rate_per_s < ROOM * capacity.samples_per_s(fewest),
    )


def _judged(
    seen: Observation, state: ControlState, policy: Policy, capacity: LearnedCapacity, pool: PoolMemory
) -> SafetyMemory:
    """What became of the last resize."""
    wall = capacity.model.wall
    now = PoolNow(
        at_s=seen.at_s,
        requested=seen.pool.requested,
        ready=seen.pool.loaded,
        lead_time_s=pool.lead_time_s,
        wall_at_s=None if wall is None else wall.at_s,
    )
    return judged(state.safety, now, policy.safety.breaker)


def _resized(safety: SafetyMemory, seen: Observation, planned: int) -> SafetyMemory:
    pool = seen.pool
    return safety.resized(seen.at_s, before=pool.requested, workers=planned, ready=pool.loaded)


def _tells_speed(report: WorkerReport) -> bool:
    # A window that was hardly busy measures the clock's grain more than the worker.
    return can_be(report) and report.rate_per_busy_s > 0 and report.busy >= 0.05


def _resize(
    seen: Observation,
    state: ControlState,
    policy: Policy,
    planned: int,
    victims: tuple[str, ...],
    *,
    release: bool,
) -> PoolResize | None:
    if (planned == seen.pool.requested and not release) or policy.mode is Mode.RECOMMEND:
        return None
    return PoolResize(
        planned,
        decision_id=_decision_id(seen, state),
        fence=seen.fence,
        remove=victims,
        gpu_type=seen.gpu_type,
        release=release,
        nodes=seen.nodes if planned > seen.pool.requested else (),
    )


def _assignment(
    seen: Observation, state: ControlState, policy: Policy, training: int, *, leaving: tuple[str, ...]
) -> Assignment:
    active = standby.active_names(seen, policy, active=training, leaving=leaving)
    if policy.shuffle is not Shuffle.LEASES or not seen.traffic.partition_rates:
        return Assignment(active=active)
    speed = {report.worker: report.rate_per_busy_s for report in seen.reports if _tells_speed(report)}
    known = fmean(speed.values()) if speed else 1.0
    named = Assignment(active=active)
    staying = (
        w.id
        for w in seen.pool.workers
        if w.phase in standby.LOADED and w.id not in leaving and not named.stands_by(w.id)
    )
    speeds = {worker: speed.get(worker, known) for worker in staying}
    at_risk = seen.traffic.lag_s > policy.slo.fresh_within_s / 2
    rates = seen.traffic.partition_rates
    moves_max = None if at_risk else max(4, len(rates) // 10)  # each costs a seek; the rest follows
    return replace(rebalance(state.assignment, rates, speeds, moves_max=moves_max)[0], active=active)


def _notes(seen: Observation, state: ControlState, policy: Policy, lead_time_s: float) -> tuple[Reason, ...]:
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


def _capacity_notes(capacity: LearnedCapacity, planned: int, limits: Limits) -> tuple[Reason, ...]:
    """What keeps C(n) from allowing more."""
    wall = capacity.model.wall
    if wall is not None and planned >= wall.workers and wall.bounds(planned + 1):
        return (Reason.NO_GAIN,)
    return (Reason.AT_REACH,) if capacity.reach <= planned < limits.workers_max else ()


def _numbers(
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


def _decision_id(seen: Observation, state: ControlState) -> str:
    return f"{seen.job}-{state.sequence + 1}"
