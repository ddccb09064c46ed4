"""Who leaves when a pool shrinks."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from services.control.types import Worker, WorkerPhase


def choose_victims(staying: Iterable[Worker], *, keep: int, remove: Collection[str] = ()) -> tuple[str, ...]:
    """The workers that go so that `keep` stay: those named in `remove`, then those that do not
    train yet, then the youngest.

    `remove` says who, never how many: a request repeated after its victims have left takes nobody
    else. Names that are not there are passed over, since a worker may die before it is removed.

    >>> old, young = (Worker(name, WorkerPhase.READY, at) for name, at in (("a", 1.0), ("b", 2.0)))
    >>> choose_victims([old, young], keep=1), choose_victims([old, young], keep=1, remove=["a"])
    (('b',), ('a',))
    >>> choose_victims([old, young], keep=2, remove=["a"])
    ()
    """
    leaving_first = sorted(staying, key=lambda worker: _keep_rank(worker, remove), reverse=True)
    return tuple(worker.id for worker in leaving_first[: max(0, len(leaving_first) - keep)])


def _keep_rank(worker: Worker, remove: Collection[str]) -> tuple[bool, bool, float, str]:
    return worker.id in remove, worker.phase is WorkerPhase.STARTING, worker.started_at_s, worker.id
