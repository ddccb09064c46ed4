"""The ledger of one process: for the simulator, for tests, for a worker without company."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from shuffler.errors import NotOpened
from shuffler.lease import Completed, Lease, Progress
from shuffler.ledger import Ledger, Terms


class MemoryLedger:
    """The pure ledger with a clock, safe among threads. Implements LeaseLedger."""

    def __init__(self, terms: Terms, *, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._lock = Lock()
        self._ledger = Ledger(terms)

    def open(self, starts: Mapping[int, int], *, after_epoch: int = 0, topic_id: str = "") -> None:
        with self._lock:
            self._ledger.open(starts, after_epoch=after_epoch, topic_id=topic_id, now_s=self._now_s())

    def extend(self, ends: Mapping[int, int]) -> None:
        with self._lock:
            self._ledger.extend(ends, now_s=self._now_s())

    def reset(
        self,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        *,
        after_epoch: int = 0,
        topic_id: str = "",
        lost: int = 0,
    ) -> None:
        with self._lock:
            self._ledger.reset(
                starts, ends, after_epoch=after_epoch, topic_id=topic_id, lost=lost, now_s=self._now_s()
            )

    def acquire(
        self,
        worker: str,
        *,
        samples: int,
        prefer: Sequence[int],
        least: int = 1,
        completed: Completed | None = None,
    ) -> Lease | None:
        with self._lock:
            return self._ledger.acquire(
                worker, samples=samples, prefer=prefer, least=least, completed=completed, now_s=self._now_s()
            )

    def renew(self, worker: str) -> None:
        with self._lock:
            self._ledger.renew(worker, now_s=self._now_s())

    def leave(self, worker: str, *, within_s: float) -> None:
        with self._lock:
            self._ledger.leave(worker, within_s=within_s, now_s=self._now_s())

    def complete(self, lease: Lease, *, trained: int, late: int, lost: int = 0) -> None:
        with self._lock:
            self._ledger.complete(lease, trained=trained, late=late, lost=lost)

    def release(self, lease: Lease, *, upto: int, trained: int, late: int, lost: int = 0) -> None:
        with self._lock:
            self._ledger.release(lease, upto=upto, trained=trained, late=late, lost=lost)

    def take_turn(self, worker: str, *, every_s: float) -> bool:
        with self._lock:
            return self._ledger.take_turn(worker, every_s=every_s, now_s=self._now_s())

    def end_turn(self, worker: str, *, committed: bool = False) -> None:
        with self._lock:
            self._ledger.end_turn(worker, committed=committed, now_s=self._now_s())

    def progress(self) -> Progress:
        with self._lock:
            progress = self._ledger.progress()
        if not progress.ends:
            raise NotOpened
        return progress
