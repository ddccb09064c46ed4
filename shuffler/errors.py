"""What a ledger refuses.

LedgerError
├── LeaseLost    the lease lapsed and its range was given to another; forget it
└── NotOpened    the ledger does not know the partition; open it first
"""

from __future__ import annotations

from shuffler.lease import Lease


class LedgerError(Exception):
    """Anything that a ledger refuses in an expected way."""


class LeaseLost(LedgerError):
    """The lease is no longer this worker's: its range was, or will be, given to another."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(
            f"{lease.worker} no longer holds [{lease.start}, {lease.end}) of partition {lease.partition} "
            f"(token {lease.token} of epoch {lease.epoch}); it lapsed and is given out again"
        )
        self.lease = lease


class NotOpened(LedgerError):
    """Nothing is known of a partition, or of the whole job."""

    def __init__(self, partition: int | None = None) -> None:
        what = "the ledger" if partition is None else f"partition {partition}"
        super().__init__(f"{what} is not open; call open() with the offsets to start from")
        self.partition = partition
