"""The ledger: who may train which offsets, and how far everything is trained.

Below `next` of a partition every offset is out on a lease, returned and
waiting to be given out again, given up, or done; at or above it nothing was
ever given out. So the ranges done need not be kept: the watermark is the
lowest offset that is out, returned or next, and nothing but a `reset` can
move it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from shuffler.choice import Wish, choose, shared_out
from shuffler.commit_turn import CommitTurn
from shuffler.errors import LeaseLost, NotOpened
from shuffler.lease import Completed, Lease, Progress, check_counts
from shuffler.partition_book import PartitionBook
from shuffler.watermark import trained_beyond, watermarks

_STEP_S: Final = 1.0
"""A clock further behind than this was set back, or is another server's."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every lease of a job."""

    ttl_s: float = 15.0
    """A worker silent for this long loses its leases."""
    patience_s: float = 10.0
    """A partition that nobody read for this long comes first: none waits for ever."""
    fill_s: float = 0.2
    """A partition with less than a worker asks for at least is left to fill for this long."""
    turn_s: float = 10.0
    """Whoever commits the watermark has this long before another may."""
    lapses_max: int = 4
    """A range whose leases lapsed this often is given up: it kills or stalls whoever trains it."""


class Ledger:
    """The leases of one job. Time is an argument; nothing here does I/O.

    A clock that is set back, or that of a server which takes over and is behind, goes on from where it was:
    else nobody could commit, and no lease of the dead would lapse, until it is where it was before.

    A worker's leases live and lapse together, with the worker: whatever it
    does here, or `renew` alone, says that it is alive.

    >>> ledger = Ledger(Terms(ttl_s=15))
    >>> ledger.open({0: 100}, now_s=0)
    >>> ledger.extend({0: 150}, now_s=0)
    >>> lease = ledger.acquire("w", samples=30, prefer=(), now_s=0)
    >>> lease.start, lease.end
    (100, 130)
    >>> ledger.complete(lease, trained=30, late=0)
    >>> ledger.progress().watermarks
    {0: 130}
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._epoch = 0
        self._partitions: dict[int, PartitionBook] = {}
        self._leases: dict[int, Lease] = {}
        self._alive_until_s: dict[str, float] = {}
        self._leaves_by_s: dict[str, float] = {}
        self._heard_s: float | None = None
        self._behind_s = 0.0
        """How much later it is here than the clock says."""
        self._reads: dict[str, int] = {}
        self._settled: dict[str, int] = {}
        self._tokens = 0
        self._trained = self._late = self._repeated = self._lost = 0
        self._turn = CommitTurn()
        self._topic_id = ""
        self._committed = False

    def open(
        self, starts: Mapping[int, int], *, after_epoch: int = 0, topic_id: str = "", now_s: float
    ) -> None:
        """Make partitions known, each starting at its offset. Known ones stay as they are.

        A new ledger gets an epoch that is higher than `after_epoch`, the last one heard of, and than
        any that a clock which is right could have given: leases of a lost ledger stay lost. The first
        `topic_id` told is kept.
        """
        now_s = self._time_s(now_s)
        if not self._epoch:
            self._epoch = max(after_epoch + 1, int(now_s * 1000))
        self._topic_id = self._topic_id or topic_id
        for partition, start in starts.items():
            self._partitions.setdefault(partition, PartitionBook(start, start))

    def extend(self, ends: Mapping[int, int], *, now_s: float) -> None:
        """Offsets below these may be leased. An end never moves back. Raises NotOpened."""
        now_s = self._time_s(now_s)
        for partition in ends:
            self._known(partition)
        for partition, end in ends.items():
            self._partitions[partition].extend(end, now_s=now_s)

    def reset(
        self,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        *,
        after_epoch: int = 0,
        topic_id: str = "",
        lost: int = 0,
        now_s: float,
    ) -> None:
        """Start these partitions anew at `starts`, up to `ends`, whatever was trained of them.

        The epoch rises, so that every lease that is out is lost to its worker; those of the other
        partitions are given out again. With a `topic_id`, the offsets are of that topic from now on,
        and `lost` of the one before went untrained. Raises NotOpened.
        """
        if not self._epoch:
            raise NotOpened
        now_s = self._time_s(now_s)
        self._epoch = max(self._epoch + 1, after_epoch + 1, int(now_s * 1000))
        for lease in self._leases.values():
            if lease.partition not in starts:
                self._repeated += lease.end - lease.start
                self._partitions[lease.partition].take_back(lease.start, lease.end, lease.lapses)
        self._leases.clear()
        self._alive_until_s.clear()
        self._leaves_by_s.clear()
        self._heard_s = None
        self._reads.clear()
        self._settled.clear()
        self._committed = False
        self._topic_id = topic_id or self._topic_id
        self._lost += lost
        for partition, start in starts.items():
            end = max(start, ends.get(partition, start))
            self._partitions[partition] = PartitionBook(
                start, end, waiting_since_s=now_s if end > start else None
            )

    def acquire(
        self,
        worker: str,
        *,
        samples: int,
        prefer: Sequence[int],
        least: int = 1,
        completed: Completed | None = None,
        now_s: float,
    ) -> Lease | None:
        """A range of at most `samples` offsets for `worker`, or None when there is none to give.

        Fewer, down to a quarter, from a partition that waited beyond its patience: then others do, too.
        Of a partition that has less than `least`, nothing is given until it
        was left to fill for a while: every lease may cost a jump, and every
        batch that is not full a step of the device. What was returned comes
        before what is new, in every partition and among them; what lapsed more
        than once comes in ever smaller pieces, so that little is given up with
        the sample that stalls its workers. Lapsed leases are taken back first.
        `completed` is completed before that; when it is lost, nothing is
        acquired.
        """
        if samples < 1:
            raise ValueError(f"samples is {samples}; a lease holds at least one")
        if not self._partitions:
            raise NotOpened
        now_s = self._time_s(now_s)
        if completed is not None:
            self.complete(
                completed.lease, trained=completed.trained, late=completed.late, lost=completed.lost
            )
        self._expire(now_s)
        self._renew(worker, now_s)
        wish = Wish(samples, min(least, samples), prefer, self._reads.get(worker))
        terms = self._terms
        partition = choose(
            self._partitions, wish, patience_s=terms.patience_s, fill_s=terms.fill_s, now_s=now_s
        )
        if partition is None:
            return None
        book = self._partitions[partition]
        waited_s = 0.0 if book.waiting_since_s is None else now_s - book.waiting_since_s
        share = shared_out(samples, wish.least, waited_s=waited_s, patience_s=terms.patience_s)
        start, end, lapses = book.take(share, now_s=now_s)
        self._tokens += 1
        self._reads[worker] = partition
        until_s = now_s + terms.ttl_s
        lease = Lease(partition, start, end, worker, self._tokens, self._epoch, until_s, lapses)
        self._leases[lease.token] = lease
        return lease

    def renew(self, worker: str, *, now_s: float) -> None:
        """`worker` is alive: what it still holds lasts for another time-to-live."""
        self._renew(worker, self._time_s(now_s))

    def leave(self, worker: str, *, within_s: float, now_s: float) -> None:
        """`worker` is alive, and has left `within_s` from now at the latest: nothing that it still holds
        lasts beyond that, whatever is heard of it. Said again, the earliest word counts."""
        now_s = self._time_s(now_s)
        by_s = min(self._leaves_by_s.get(worker, float("inf")), now_s + within_s)
        self._leaves_by_s[worker] = by_s
        self._reads.pop(worker, None)
        self._hear(worker, now_s)

    def complete(self, lease: Lease, *, trained: int, late: int, lost: int = 0) -> None:
        """The whole range is trained, or lost to Kafka. Raises LeaseLost and changes nothing.

        Settling the same lease twice in a row is settling it once: the first answer may have been
        lost on its way to the worker.
        """
        if not self._is_settled(lease):
            self._settle(lease, trained, late, lost)

    def release(self, lease: Lease, *, upto: int, trained: int, late: int, lost: int = 0) -> None:
        """Give back [upto, end); what lies before is trained. Raises LeaseLost and changes nothing."""
        if not lease.start <= upto <= lease.end:
            raise ValueError(f"upto is {upto}, outside of [{lease.start}, {lease.end}]")
        if self._is_settled(lease):
            return
        self._settle(lease, trained, late, lost)
        if upto < lease.end:
            self._partitions[lease.partition].take_back(upto, lease.end, lease.lapses)

    def expire(self, *, now_s: float) -> tuple[Lease, ...]:
        """Take back the leases of workers that fell silent, and say which."""
        return self._expire(self._time_s(now_s))

    def take_turn(self, worker: str, *, every_s: float, now_s: float) -> bool:
        """Whether `worker` may commit the watermark now: one at a time, `every_s` after the last."""
        now_s = self._time_s(now_s)
        return self._turn.take(worker, every_s=every_s, lasts_s=self._terms.turn_s, now_s=now_s)

    def end_turn(self, worker: str, *, committed: bool = False, now_s: float) -> None:
        """The turn is over, and whether the group took the watermark. Nothing happens when the turn
        had passed to another."""
        if self._turn.end(worker, now_s=self._time_s(now_s)):
            self._committed = self._committed or committed

    def leases(self) -> tuple[Lease, ...]:
        """What is out, oldest first."""
        return tuple(self._leases.values())

    def progress(self) -> Progress:
        """Where the job stands."""
        upper = {p: book.next for p, book in self._partitions.items()}
        undone = [(lease.partition, lease.start, lease.end) for lease in self._leases.values()]
        undone += [(p, start, end) for p, book in self._partitions.items() for start, end, _ in book.returned]
        return Progress(
            watermarks=watermarks(upper, [(p, start) for p, start, _ in undone]),
            ends={p: book.end for p, book in sorted(self._partitions.items())},
            trained=self._trained,
            late=self._late,
            repeated=self._repeated,
            lost=self._lost,
            epoch=self._epoch,
            beyond=trained_beyond(upper, undone),
            out=sum(lease.end - lease.start for lease in self._leases.values()),
            quarantined={
                p: tuple(book.quarantined) for p, book in sorted(self._partitions.items()) if book.quarantined
            },
            topic_id=self._topic_id,
            committed=self._committed,
        )

    def _time_s(self, clock_s: float) -> float:
        """What time it is here, which is never earlier than when somebody was heard last."""
        now_s = clock_s + self._behind_s
        if self._heard_s is None or self._heard_s - now_s <= _STEP_S:
            return now_s
        self._behind_s += self._heard_s - now_s
        return self._heard_s

    def _expire(self, now_s: float) -> tuple[Lease, ...]:
        self._forgive_deafness(now_s)
        silent = {worker for worker, until_s in self._alive_until_s.items() if until_s <= now_s}
        lapsed = tuple(lease for lease in self._leases.values() if lease.worker in silent)
        for lease in lapsed:
            del self._leases[lease.token]
            if lease.lapses + 1 >= self._terms.lapses_max:
                self._partitions[lease.partition].give_up(lease.start, lease.end)
            else:
                self._repeated += lease.end - lease.start
                self._partitions[lease.partition].take_back(lease.start, lease.end, lease.lapses + 1)
        for worker in silent:
            del self._alive_until_s[worker]
            self._leaves_by_s.pop(worker, None)
            self._reads.pop(worker, None)
            self._settled.pop(worker, None)
        return lapsed

    def _renew(self, worker: str, now_s: float) -> None:
        self._hear(worker, now_s)
        self._leaves_by_s.pop(worker, None)

    def _hear(self, worker: str, now_s: float) -> None:
        self._forgive_deafness(now_s)
        self._heard_s = now_s
        self._alive_until_s[worker] = self._lasts_until_s(worker, now_s)

    def _lasts_until_s(self, worker: str, now_s: float) -> float:
        return min(now_s + self._terms.ttl_s, self._leaves_by_s.get(worker, float("inf")))

    def _forgive_deafness(self, now_s: float) -> None:
        """Nobody at all was heard for half a time-to-live: it was the ledger that could not be
        reached. Everybody gets another time-to-live to come back; who leaves, no more than it has."""
        if self._heard_s is None or now_s - self._heard_s <= self._terms.ttl_s / 2:
            return
        self._heard_s = now_s
        for worker in self._alive_until_s:
            self._alive_until_s[worker] = self._lasts_until_s(worker, now_s)

    def _known(self, partition: int) -> PartitionBook:
        if partition not in self._partitions:
            raise NotOpened(partition)
        return self._partitions[partition]

    def _is_settled(self, lease: Lease) -> bool:
        return lease.epoch == self._epoch and self._settled.get(lease.worker) == lease.token

    def _settle(self, lease: Lease, trained: int, late: int, lost: int) -> None:
        check_counts(lease, trained=trained, late=late, lost=lost)
        held = self._leases.get(lease.token)
        # A server restored from an older copy gives tokens again: all of the lease must be the same.
        if held is None or replace(lease, expires_at_s=held.expires_at_s) != held:
            raise LeaseLost(lease)
        del self._leases[lease.token]
        self._settled[lease.worker] = lease.token
        self._trained += trained
        self._late += late
        self._lost += lost
