"""The ledger as the workers see it, and the stream as the trainer does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from services.stream.batch import Batch
from shuffler.lease import Completed, Lease, Progress


class BatchStream(Iterator[Batch], Protocol):
    """Batches for one worker, from wherever it reads."""

    def stop(self) -> None:
        """Take no more work; the iteration ends when what was read is trained. From any thread."""
        ...

    def close(self) -> None:
        """Give back what is not trained and leave. Twice is once."""
        ...


class LeaseLedger(Protocol):
    """Hands out offset ranges of one job, each to one worker at a time. Synchronous: workers are.

    Every method may raise LedgerUnavailable; then nobody knows whether it was carried out, and
    calling it again is safe.
    """

    def open(self, starts: Mapping[int, int], *, after_epoch: int = 0, topic_id: str = "") -> None:
        """Make known partitions and the offsets they start at. Known ones are left as they are.

        A ledger that is made new gets a higher epoch than `after_epoch`, and than any before it.
        """
        ...

    def extend(self, ends: Mapping[int, int]) -> None:
        """Offsets below these may be leased. An end never moves back. Raises NotOpened."""
        ...

    def reset(
        self,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        *,
        after_epoch: int = 0,
        topic_id: str = "",
        lost: int = 0,
    ) -> None:
        """Start these partitions anew, under a higher epoch: whatever is out is lost to its worker,
        and given out again where it is of another partition. Raises NotOpened.

        With a `topic_id` the offsets are of that topic from now on, and `lost` of the old one are gone.
        """
        ...

    def acquire(
        self,
        worker: str,
        *,
        samples: int,
        prefer: Sequence[int],
        least: int = 1,
        completed: Completed | None = None,
    ) -> Lease | None:
        """A range of at most `samples`, or None when there is none to give; `completed` is completed
        before, in the same step. Raises LeaseLost for that one, and then acquires nothing.

        A partition with less than `least` is left to fill for a moment before any of it is given.

        What was given back or lapsed comes first, then what nobody read for too long; else the
        worker reads on in its own partition, or goes to the most behind of those it prefers, or of
        all while those have nothing. Leases are shorter while partitions wait for too long. What
        lapsed `lapses_max` times is given up. Raises NotOpened when the ledger is not there (any more).
        """
        ...

    def renew(self, worker: str) -> None:
        """The worker is alive: its leases last for another time-to-live."""
        ...

    def leave(self, worker: str, *, within_s: float) -> None:
        """The worker is alive and will have left: `within_s` from now nothing of it lasts, whatever is
        heard of it until then. Said again, the earliest word counts."""
        ...

    def complete(self, lease: Lease, *, trained: int, late: int, lost: int = 0) -> None:
        """The whole range is trained. Raises LeaseLost when it was given to another."""
        ...

    def release(self, lease: Lease, *, upto: int, trained: int, late: int, lost: int = 0) -> None:
        """Give back [upto, end); what lies before is trained or lost. Raises LeaseLost."""
        ...

    def take_turn(self, worker: str, *, every_s: float) -> bool:
        """Whether `worker` may commit the watermark: one at a time, and `every_s` after the last."""
        ...

    def end_turn(self, worker: str, *, committed: bool = False) -> None:
        """The turn is over, and whether the group took the watermark; nothing happens when it had
        passed to another."""
        ...

    def progress(self) -> Progress:
        """Where the job stands. Raises NotOpened."""
        ...
