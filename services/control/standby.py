"""Warm standbys: workers that are started and loaded and take no leases until the assignment names them."""

from __future__ import annotations

from dataclasses import replace

from estimator.capacity import LearnedCapacity
from estimator.situation import Sizing
from estimator.standbys import Standbys, standbys_for
from services.control.explained import heeded
from services.control.types import Mode, Observation, Policy, PoolState, Shuffle, WorkerPhase
from shuffler.assignment import Assignment

LOADED = (WorkerPhase.READY, WorkerPhase.STANDBY)
_ORDER = {WorkerPhase.READY: 0, WorkerPhase.STANDBY: 1, WorkerPhase.STARTING: 2}


def standing_by(pool: PoolState, assignment: Assignment) -> PoolState:
    """The pool as the assignment in force makes it: a platform cannot know who was told to wait."""
    if assignment.active is None:
        return pool
    workers = tuple(
        replace(worker, phase=WorkerPhase.STANDBY)
        if worker.phase is WorkerPhase.READY and assignment.stands_by(worker.id)
        else worker
        for worker in pool.workers
    )
    return pool if workers == pool.workers else replace(pool, workers=workers)


def keeps_standbys(seen: Observation, policy: Policy) -> bool:
    """Standing by is having no lease: without leases, or on a pool that cannot, nobody does. Nor does
    anybody in shadow mode, where the workers are somebody else's."""
    able = seen.can_stand_by and policy.shuffle is Shuffle.LEASES and policy.mode is Mode.ACT
    return able and policy.standbys != 0


def wanted(
    sizing: Sizing,
    seen: Observation,
    policy: Policy,
    capacity: LearnedCapacity,
    *,
    kept: int,
    lead_time_s: float,
) -> tuple[int, dict[str, float]]:
    """How many should stand by beside the workers of `sizing`, and the numbers that led to it."""
    if not keeps_standbys(seen, policy):
        return 0, {}
    if policy.standbys is not None:
        return policy.standbys, {}
    forecast = heeded(seen.forecast)
    if forecast is None:
        return kept, {}  # a forecast that is away for a moment must not empty the bench
    target = policy.slo.late_share_target
    chosen: Standbys = standbys_for(
        forecast,
        capacity,
        now_s=seen.at_s,
        lead_time_s=lead_time_s,
        active=sizing.workers,
        kept=kept,
        workers_max=policy.limits.workers_max,
        # Rules without a price of their own promise that a share of `target` is late at most.
        price=sizing.numbers.get("price", (1.0 - target) / target),
    )
    return chosen.workers, {"standby_ratio": chosen.ratio, "standby_peak_per_s": chosen.peak_per_s}


def active_names(
    seen: Observation, policy: Policy, *, active: int, leaving: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Who trains: those that do, then who stands by, then who is on the way. None is everyone.

    Named beforehand, a worker that becomes ready between two ticks knows what it is for.
    """
    if not keeps_standbys(seen, policy):
        return None
    known = [w for w in seen.pool.workers if w.phase in _ORDER and w.id not in leaving]
    if len(known) < active:
        return None
    known.sort(key=lambda w: (_ORDER[w.phase], w.started_at_s, w.id))
    return tuple(sorted(w.id for w in known[:active]))
