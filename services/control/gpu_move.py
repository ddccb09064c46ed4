"""A job with a pool for each GPU type: which of them it is on, and when the one that it leaves may go.

It grows on the new type first. Those on the old one train until as many as were asked for are ready.
"""

from __future__ import annotations

from dataclasses import replace

from estimator.situation import Sizing
from services.control.types import ControlState, Observation, PoolState, Reason, WorkerPhase

_LOADED = (WorkerPhase.READY, WorkerPhase.STANDBY)


def settled_on(pool: PoolState, state: ControlState) -> str:
    """The type that the job is on, or on its way to; empty where it has one pool.

    By what was last committed, else by what the platform shows: the type it has most of.

    >>> settled_on(PoolState(3, by_type={"t4": 0, "a100": 3}), ControlState())
    'a100'
    """
    if not pool.by_type:
        return ""
    if state.gpu_type in pool.by_type:
        return state.gpu_type
    return max(pool.by_type, key=lambda kind: pool.by_type[kind])


def on_type(seen: Observation, gpu_type: str) -> Observation:
    """The same tick of a job that is on this type, or is to be."""
    return replace(seen, gpu_type=gpu_type, pool=seen.pool.towards(gpu_type))


def named(sizing: Sizing, seen: Observation, state: ControlState) -> Sizing:
    """A move is what decided, in the tick that begins it."""
    before = settled_on(seen.pool, state)
    begins = bool(before) and before != seen.gpu_type
    return replace(sizing, reason=Reason.FLEET_MOVE) if begins else sizing


def may_leave(seen: Observation, planned: int) -> bool:
    """Whether workers on other types may go: as many as were asked for are ready in their place."""
    if not seen.pool.can_leave(seen.gpu_type):
        return False
    ready = sum(worker.phase in _LOADED and worker.gpu_type == seen.gpu_type for worker in seen.pool.workers)
    return ready >= min(planned, seen.pool.requested) and (ready > 0 or planned == 0)


def left_behind(seen: Observation) -> tuple[str, ...]:
    """The workers on other types, but for those that leave already."""
    return tuple(
        worker.id
        for worker in seen.pool.workers
        if worker.gpu_type != seen.gpu_type and worker.phase is not WorkerPhase.DRAINING
    )
