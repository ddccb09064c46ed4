"""What a tick learns before it decides: C(n), how the pool behaves, what became of the last resize."""

from __future__ import annotations

from dataclasses import replace

from estimator.capacity import Dealt, LearnedCapacity
from estimator.throughput import Guess
from services.control.learned import PoolMemory, Throughput
from services.control.pool_watch import pool_seen
from services.control.safety import PoolNow, SafetyMemory, judged
from services.control.throughput_windows import throughput_seen
from services.control.types import ControlState, Observation, Policy, Shuffle

ROOM = 0.9
"""A pool that could train this much more than arrives falls behind for other reasons than traffic."""


def throughput(
    seen: Observation, ready: tuple[str, ...], state: ControlState, policy: Policy
) -> tuple[Throughput, LearnedCapacity]:
    """What is known of C(n) after this tick."""
    prior = policy.capacity_prior
    guess = Guess(prior.rate_per_worker, prior.contention, policy.lone_rates, policy.profile)
    dealt = _dealt(seen, policy)
    partitions = None if dealt is None else dealt.partitions
    learned = (
        throughput_seen(state.throughput, seen, ready, guess, partitions=partitions)
        if policy.learns
        else Throughput(guess=guess)
    )
    if seen.gpu_type:  # on the way to another type, the workers to come are what is planned with
        learned = replace(learned, gpu_type=seen.gpu_type)
    lost = policy.slo.is_lost(
        lag_s=seen.traffic.lag_s,
        rate_per_s=seen.traffic.rate_per_s,
        able_per_s=learned.model.samples_per_s(len(ready)),
        lead_time_s=state.pool.lead_time_s,
    )
    most = policy.limits.workers_max
    capacity = LearnedCapacity.of(
        learned.model,
        slo_broken=lost,
        workers_max=most,
        dealt=dealt,
        requested=seen.pool.requested,
    )
    return learned, capacity


def _dealt(seen: Observation, policy: Policy) -> Dealt | None:
    """How Kafka shares the partitions out, where that is not for Penstock to do."""
    rates = seen.traffic.partition_rates
    if policy.shuffle is Shuffle.LEASES or not rates:
        return None
    total = sum(rates)
    return Dealt(len(rates), max(rates) / total if total > 0 else 0.0)


def pool(
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


def safety(
    seen: Observation, state: ControlState, policy: Policy, capacity: LearnedCapacity, memory: PoolMemory
) -> SafetyMemory:
    """What became of the last resize."""
    wall = capacity.model.wall
    now = PoolNow(
        at_s=seen.at_s,
        requested=seen.pool.requested,
        ready=seen.pool.loaded,
        lead_time_s=memory.lead_time_s,
        wall_at_s=None if wall is None else wall.at_s,
    )
    return judged(state.safety, now, policy.safety.breaker)
