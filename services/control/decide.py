"""One pure tick: what is seen and remembered in, what to do and to remember out."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from estimator.capacity import Capacity
from estimator.situation import Limits, Situation, Sizing
from services.control.types import (
    ControlState,
    Decision,
    Mode,
    Observation,
    Policy,
    PoolResize,
    Reason,
    Shuffle,
    Victims,
    WorkerPhase,
    WorkerReport,
)
from shuffler.assignment import Assignment
from shuffler.rebalance import rebalance


def decide(seen: Observation, state: ControlState, policy: Policy) -> Decision:
    """The pool size and the assignment to want now, why, and what to remember.

    Deterministic: the same arguments give the same decision, its id included,
    so a tick repeated after a crash asks for the same thing.
    """
    capacity = _learned_capacity(seen, state, policy)
    limits = _limits(seen, policy)
    sizing, memory = _size(seen, state, policy, capacity, limits)
    sizing = _steered(sizing, seen, policy)
    planned, bound = _bounded(sizing, limits, policy)
    victims = () if planned == seen.pool.requested else _victims(seen, planned)
    resize = _resize(seen, state, policy, planned, victims)
    assignment = _assignment(seen, state, policy, leaving=victims if resize else ())
    return Decision(
        id=_decision_id(seen, state),
        job=seen.job,
        at_s=seen.at_s,
        planned=planned,
        requested=seen.pool.requested,
        ready=seen.pool.ready,
        reason=sizing.reason,
        notes=_notes(seen, state, policy, bound),
        numbers=_numbers(seen, sizing, capacity, planned),
        resize=resize,
        assignment=None if assignment == state.assignment else assignment,
        state=ControlState(
            sequence=state.sequence + 1,
            planned=planned,
            rule=policy.rule.name,
            memory=memory,
            capacity=capacity,
            assignment=assignment,
            pool_failures=seen.pool.failures,
        ),
    )


def _size(
    seen: Observation, state: ControlState, policy: Policy, capacity: Capacity, limits: Limits
) -> tuple[Sizing, object]:
    """Ask the rule, unless traffic is unknown: then nothing may move."""
    memory = state.memory if state.rule == policy.rule.name else policy.rule.memory()
    if seen.at_s - seen.traffic.at_s > policy.stale_after_s:
        held = state.planned if state.planned is not None else max(seen.pool.requested, limits.workers_min)
        return Sizing(held, Reason.STALE_METER), memory
    sizing, memory = policy.rule.size(_situation(seen, policy, capacity, limits), memory)
    if state.planned is None and seen.pool.requested == 0:
        sizing = replace(sizing, reason=Reason.COLD_START)
    return sizing, memory


def _steered(sizing: Sizing, seen: Observation, policy: Policy) -> Sizing:
    """What an operator set wins over the rule; what the rule wanted is kept among the numbers."""
    override = policy.override
    if override is not None and seen.at_s < override.until_s:
        size, reason = override.workers, Reason.OVERRIDE
    elif policy.paused:
        size, reason = seen.pool.requested, Reason.PAUSED
    else:
        return sizing
    return Sizing(size, reason, {**sizing.numbers, "rule_workers": float(sizing.workers)})


def _situation(seen: Observation, policy: Policy, capacity: Capacity, limits: Limits) -> Situation:
    traffic, pool = seen.traffic, seen.pool
    ready = {worker.id for worker in pool.workers if worker.phase is WorkerPhase.READY}
    busy = {report.worker: report.busy for report in seen.reports if report.worker in ready}
    return Situation(
        now_s=seen.at_s,
        rate_per_s=traffic.rate_per_s,
        lag=float(traffic.lag),
        lag_s=traffic.lag_s,
        trained_per_s=traffic.trained_per_s,
        requested=pool.requested,
        ready=len(ready),
        busy=fmean(busy.values()) if busy else None,
        capacity=capacity,
        slo=policy.slo,
        limits=limits,
        lead_time_s=policy.lead_time_s,
        pause_s=policy.pause_s,
        forecast=seen.forecast,
        partition_lags=traffic.partition_lags,
        busy_by_worker=busy,
        history=seen.history,
    )


def _learned_capacity(seen: Observation, state: ControlState, policy: Policy) -> Capacity:
    known = state.capacity or policy.capacity_prior
    speeds = [report.rate_per_busy_s for report in seen.reports if _tells_speed(report)]
    if not speeds:
        return known
    return known.seen(fmean(speeds), workers=len(speeds))


def _tells_speed(report: WorkerReport) -> bool:
    # A window that was hardly busy measures the clock's grain more than the worker.
    return report.rate_per_busy_s > 0 and report.busy >= 0.05


def _limits(seen: Observation, policy: Policy) -> Limits:
    """Without leases, Kafka gives a partition to one worker: more workers than partitions idle."""
    partitions = len(seen.traffic.partition_rates)
    if policy.shuffle is Shuffle.LEASES or partitions == 0:
        return policy.limits
    most = min(policy.limits.workers_max, partitions)
    return Limits(min(policy.limits.workers_min, most), most)


def _bounded(sizing: Sizing, limits: Limits, policy: Policy) -> tuple[int, Reason | None]:
    """Within the limits, and which of them binds. A paused pool is not moved, not even into its limits."""
    if sizing.reason is Reason.PAUSED:
        return sizing.workers, None
    if sizing.workers < limits.workers_min:
        return limits.workers_min, Reason.AT_MINIMUM
    if sizing.workers > limits.workers_max:
        by_partitions = limits.workers_max < policy.limits.workers_max
        return limits.workers_max, Reason.AT_PARTITIONS if by_partitions else Reason.AT_MAXIMUM
    return sizing.workers, None


def _victims(seen: Observation, planned: int) -> tuple[str, ...]:
    """Who goes when the pool shrinks: first who does not train yet, then the youngest.

    Where the platform takes the highest numbers, those, so that they are the ones that drain;
    where it does not tell whom it takes, nobody is named.
    """
    staying = [w for w in seen.pool.workers if w.phase in (WorkerPhase.STARTING, WorkerPhase.READY)]
    surplus = len(staying) - planned
    if surplus <= 0 or seen.victims is Victims.NONE:
        return ()
    if seen.victims is Victims.HIGHEST:
        staying.sort(key=lambda w: (_number(w.id), w.id), reverse=True)
    else:
        staying.sort(key=lambda w: (w.phase is WorkerPhase.STARTING, w.started_at_s, w.id), reverse=True)
    return tuple(worker.id for worker in staying[:surplus])


def _number(worker: str) -> int:
    """The number at the end of a worker's name; -1 without one.

    >>> _number("ads-12"), _number("ads-7c9f-x2b")
    (12, -1)
    """
    number = worker.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def _resize(
    seen: Observation, state: ControlState, policy: Policy, planned: int, victims: tuple[str, ...]
) -> PoolResize | None:
    if planned == seen.pool.requested or policy.mode is Mode.RECOMMEND:
        return None
    return PoolResize(planned, decision_id=_decision_id(seen, state), fence=seen.fence, remove=victims)


def _assignment(
    seen: Observation, state: ControlState, policy: Policy, *, leaving: tuple[str, ...]
) -> Assignment:
    if policy.shuffle is not Shuffle.LEASES or not seen.traffic.partition_rates:
        return Assignment()
    speed = {report.worker: report.rate_per_busy_s for report in seen.reports if _tells_speed(report)}
    known = fmean(speed.values()) if speed else 1.0
    staying = (w.id for w in seen.pool.workers if w.phase is WorkerPhase.READY and w.id not in leaving)
    speeds = {worker: speed.get(worker, known) for worker in staying}
    return rebalance(state.assignment, seen.traffic.partition_rates, speeds)


def _notes(
    seen: Observation, state: ControlState, policy: Policy, bound: Reason | None
) -> tuple[Reason, ...]:
    notes = [] if bound is None else [bound]
    if seen.forecast is None:
        notes.append(Reason.NO_FORECAST)
    elif policy.forecast_model and seen.forecast.model != policy.forecast_model:
        notes.append(Reason.FALLBACK_FORECAST)
    if seen.pool.failures > state.pool_failures:
        notes.append(Reason.WORKERS_LOST)
    if policy.mode is Mode.RECOMMEND:
        notes.append(Reason.RECOMMEND_ONLY)
    return tuple(notes)


def _numbers(seen: Observation, sizing: Sizing, capacity: Capacity, planned: int) -> dict[str, float]:
    traffic = seen.traffic
    return {
        "rate_per_s": traffic.rate_per_s,
        "trained_per_s": traffic.trained_per_s,
        "lag": float(traffic.lag),
        "lag_s": traffic.lag_s,
        "capacity_ready_per_s": capacity.samples_per_s(seen.pool.ready),
        "capacity_planned_per_s": capacity.samples_per_s(planned),
        **sizing.numbers,
    }


def _decision_id(seen: Observation, state: ControlState) -> str:
    return f"{seen.job}-{state.sequence + 1}"
