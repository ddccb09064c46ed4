"""One pure tick: what is seen and remembered in, what to do and to remember out."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from estimator.capacity import LearnedCapacity
from estimator.situation import Limits, Situation, Sizing
from services.control import account, explained, gpu_move, learning, standby
from services.control.bounds import bounded, limits_of, safety_numbers
from services.control.learned import PoolMemory
from services.control.pool_watch import lead_times
from services.control.safety import SafetyMemory
from services.control.throughput_windows import can_be
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


def decide(seen: Observation, state: ControlState, policy: Policy) -> Decision:
    """The pool size and the assignment to want now, why, and what to remember.

    Deterministic: the same arguments give the same decision, its id included,
    so a tick repeated after a crash asks for the same thing.
    """
    ready = seen.pool.ready_names
    throughput, capacity = learning.throughput(seen, ready, state, policy)
    pool = learning.pool(seen, ready, state, policy, capacity)
    limits = limits_of(seen, policy)
    safety = learning.safety(seen, state, policy, capacity, pool)
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
        *account.notes(seen, state, policy, situation.lead_time_s),
        *account.capacity_notes(capacity, training, limits),
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
            **account.numbers(seen, sizing, capacity, situation, training),
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
        deaths_per_s=0.0 if memory.times is None else memory.times.failures.per_worker_s,
        standbys=min(standbys, pool.standing_by),
    )


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


def _decision_id(seen: Observation, state: ControlState) -> str:
    return f"{seen.job}-{state.sequence + 1}"
