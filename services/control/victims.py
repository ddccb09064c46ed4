"""Who leaves when a pool shrinks."""

from __future__ import annotations

from services.control.types import Observation, Victims, WorkerPhase

_LEAVES = {WorkerPhase.READY: 0, WorkerPhase.STANDBY: 1, WorkerPhase.STARTING: 2}
"""Who may be asked to leave; the higher, the sooner."""


def victims_of(seen: Observation, planned: int) -> tuple[str, ...]:
    """Who goes when the pool shrinks: first who does not train yet, then who stands by, then by the
    fleet's order of nodes, then the youngest.

    Where the platform takes the highest numbers, those, so that they are the ones that drain;
    where it does not tell whom it takes, or replaces workers just now, nobody is named.
    """
    here = {seen.gpu_type} if seen.gpu_type else {w.gpu_type for w in seen.pool.workers}
    # A StatefulSet keeps a low number that crashes, and takes the highest all the same.
    leave = {*_LEAVES, WorkerPhase.FAILED} if seen.victims is Victims.HIGHEST else _LEAVES.keys()
    staying = [w for w in seen.pool.workers if w.phase in leave and w.gpu_type in here]
    surplus = len(staying) - planned
    if surplus <= 0 or seen.victims is Victims.NONE or seen.pool.replacing:
        return ()
    if seen.victims is Victims.HIGHEST:
        staying.sort(key=lambda w: (_number(w.id), w.id), reverse=True)
    else:
        yielding = set(seen.yielding)
        placed = {worker: -place for place, worker in enumerate(seen.leaving_order)}
        last = -len(placed)
        staying.sort(
            key=lambda w: (w.id in yielding, _LEAVES[w.phase], placed.get(w.id, last), w.started_at_s, w.id),
            reverse=True,
        )
    return tuple(worker.id for worker in staying[:surplus])


def _number(worker: str) -> int:
    """The number at the end of a worker's name; -1 without one.

    >>> _number("ads-12"), _number("ads-7c9f-x2b")
    (12, -1)
    """
    number = worker.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
