"""The ledger as the workers see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from shuffler.lease import Lease, Progress


class LeaseLedger(Protocol):
    """Hands out offset ranges of one job, each to one worker at a time. Synchronous: workers are."""

    def open(self, starts: Mapping[int, int]) -> None:
        """Make known partitions and the offsets they start at. Known ones are left as they are."""
        ...

    def extend(self, ends: Mapping[int, int]) -> None:
        """Offsets below these may be leased. An end never moves back."""
        ...

    def acquire(self, worker: str, *, samples: int, prefer: Sequence[int]) -> Lease | None:
        """A range of at most `samples`: reading on where this worker was, else in a preferred
        partition, else in the one most behind. Lapsed leases are taken back first. None when
        nothing is unleased."""
        ...

    def renew(self, worker: str) -> None:
        """The worker is alive: its leases last for another time-to-live."""
        ...

    def complete(self, lease: Lease, *, trained: int, late: int, lost: int = 0) -> None:
        """The whole range is trained. Raises LeaseLost when it was given to another."""
        ...

    def release(self, lease: Lease, *, upto: int, trained: int, late: int) -> None:
        """Give back [upto, end); what lies before is trained. Raises LeaseLost."""
        ...

    def progress(self) -> Progress: ...
