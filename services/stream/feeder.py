"""The thread behind a stream: takes leases ahead of whoever reads them, settles what is trained."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import structlog

from services.stream.batch import Holding
from services.stream.batch_reader import BatchReader
from services.stream.errors import LedgerUnavailable, SourceMissing, SourceUnavailable
from services.stream.frontier import Frontier
from services.stream.lease_queue import LeaseQueue
from services.stream.loss_log import LossLog
from services.stream.outage import Outage
from services.stream.plan import StreamPlan
from services.stream.ports import LeaseLedger
from services.stream.topic import Topic
from shuffler.errors import LeaseLost, NotOpened

_log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")

_IDLE_S: Final = 0.05
"""How long to wait before looking for work again."""
_AHEAD_S: Final = 0.1
"""The next lease is taken when less than a batch, and less than this much work, is left to read: time
enough to get to its records. What one worker holds in advance another could train by now."""
_LEASE_MOST: Final = 100_000
"""Samples in a lease at most, however fast the trainer says it is: a dead worker's are repeated."""


class Feeder:
    """Keeps the queue supplied. `run` belongs to one thread; `stop` may come from any."""

    def __init__(
        self,
        topic: Topic,
        ledger: LeaseLedger,
        plan: StreamPlan,
        leases: LeaseQueue,
        batches: BatchReader,
        *,
        holder: str,
        kafka: Outage,
        losses: LossLog,
        prefer: Callable[[], Sequence[int]],
        stands_by: Callable[[], bool] = lambda: False,
    ) -> None:
        self._topic = topic
        self._ledger = ledger
        self._plan = plan
        self._leases = leases
        self._batches = batches
        self._holder = holder
        self._prefer = prefer
        self._stands_by = stands_by
        self._frontier = Frontier(topic, ledger, plan)
        self._redis = Outage("redis")
        self._kafka = kafka
        self._losses = losses
        self._holdings: list[Holding] = []
        self._refresh_at_s = 0.0
        self._begun = False
        self._leave_by_s = float("inf")

    def stop(self, *, drain_s: float) -> None:
        """Take no more leases; end when what was read is trained, or after `drain_s`."""
        self._leases.close()  # first: whoever sees the other may rely on it
        self._leave_by_s = min(self._leave_by_s, time.monotonic() + drain_s)
        self._leases.wake()

    def run(self) -> None:
        """Feed until stopped and drained."""
        try:
            while self._leave_by_s == float("inf"):
                # What is trained is told with the next lease, or at once when that is not due.
                if self._leases.unread < self._ahead() and not self._stands_by() and self._take_lease():
                    continue
                self._settle()
                self._leases.wait(_IDLE_S)
            self._drain()
        finally:
            self._leases.end()

    def _drain(self) -> None:
        """Wait until what was read is trained, then give back the rest: as long as there is time."""
        self._batches.halt()  # what is given back must not be read meanwhile
        while self._in_time() and not all(holding.settled for holding in self._holdings):
            self._settle()
            self._leases.wait(_IDLE_S)
        while not self._give_back() and self._in_time():
            self._leases.wait(_IDLE_S)
        for holding in self._holdings:
            _log.warning("lease_left_to_lapse", partition=holding.lease.partition, start=holding.lease.start)

    def _in_time(self) -> bool:
        return time.monotonic() < self._leave_by_s

    def _lease_samples(self) -> int:
        """How much to ask for: what is leased and unread then ends with a full batch.

        The jump to the next lease comes while a batch is trained, not while one is gathered.
        """
        batch = self._plan.batch
        wanted = max(batch, min(_LEASE_MOST, round(self._leases.rate_per_s * self._plan.lease_s)))
        return max(batch, wanted - (self._leases.unread + wanted) % batch)

    def _ahead(self) -> int:
        """Unread samples below which the next lease is taken."""
        work = round(self._leases.rate_per_s * _AHEAD_S)
        return max(self._plan.batch, min(self._plan.read_ahead, work))

    def _take_lease(self) -> bool:
        """Whether there is something to do at once. Asks Kafka for more when nothing is unleased."""
        if not self._redis.over:
            return False
        finished = next((h for h in self._holdings if h.exhausted and h.settled), None)
        try:
            lease = self._ledger.acquire(
                self._holder,
                samples=self._lease_samples(),
                prefer=self._prefer(),
                # A worker is useful at once: its first lease is whatever is there, full batch or not.
                least=self._plan.batch if self._begun else 1,
                completed=None if finished is None else finished.completed(),
            )
            self._redis.answered()
            if finished is not None:
                self._counted(finished)
            if lease is None:
                return self._refresh()
        except LedgerUnavailable as error:
            self._redis.failed(error)
            return False
        except NotOpened:
            return self._open()
        except LeaseLost as error:
            self._lost(finished, error)
            return True
        self._begun = True
        holding = Holding(lease, read_to=lease.start)
        self._holdings.append(holding)
        self._leases.put(holding)
        self._batches.prepare()
        return True

    def prepare(self) -> None:
        """Tell the ledger how far the partitions reach, if it is open: later this connects to nobody anew.

        Raises SourceUnavailable, SourceMissing, LedgerUnavailable, NotOpened.
        """
        self._frontier.refresh()

    def _open(self) -> bool:
        """The ledger is new, or Redis has lost it: start from what the group has committed."""
        return self._ask(self._frontier.open) is not None and self._refresh()

    def _refresh(self) -> bool:
        """Whether there is more to lease, asking at most every `refresh_s`."""
        if time.monotonic() < self._refresh_at_s:
            return False
        self._refresh_at_s = time.monotonic() + self._plan.refresh_s
        return self._ask(self._frontier.refresh) is True

    def _ask(self, question: Callable[[], Answer]) -> Answer | None:
        """Kafka's answer, which the ledger is told on the way; None while either is away."""
        if not self._kafka.over:
            return None
        try:
            answer = question()
        except (SourceUnavailable, SourceMissing) as error:
            self._kafka.failed(error)  # a topic that was there may be made anew just now
            return None
        except LedgerUnavailable as error:
            self._redis.failed(error)
            return None
        except NotOpened:
            return None  # Redis lost the ledger just now; the next acquire finds out
        self._kafka.answered()
        return answer

    def _settle(self) -> None:
        """Complete the leases that are trained, and have losses audited. While Redis is away they wait."""
        for holding in [h for h in self._holdings if h.exhausted and h.settled]:
            if not self._tell(holding):
                return
        self._audit(at_once=False)

    def _give_back(self) -> bool:
        """Tell the ledger what was trained of each lease, and give back the rest; whether all is told."""
        for holding in list(self._holdings):
            self._tell(holding)
        return not self._holdings and self._audit(at_once=True)

    def _tell(self, holding: Holding) -> bool:
        """Whether the ledger knows how the lease ended; then it is no longer held."""
        if not self._redis.over:
            return False
        upto, trained, late, lost = holding.outcome()
        try:
            if holding.exhausted and holding.settled:
                self._ledger.complete(holding.lease, trained=trained, late=late, lost=lost)
            else:
                self._ledger.release(holding.lease, upto=upto, trained=trained, late=late, lost=lost)
        except LedgerUnavailable as error:
            self._redis.failed(error)
            return False
        except LeaseLost as error:
            self._lost(holding, error)
            return True
        self._redis.answered()
        self._counted(holding)
        return True

    def _counted(self, holding: Holding) -> None:
        """The ledger has taken in how the lease ended: it is no longer held."""
        self._holdings.remove(holding)
        upto = holding.outcome().upto
        self._losses.note(holding.lease.partition, [gone for gone in holding.deleted if gone[1] <= upto])

    def _audit(self, *, at_once: bool) -> bool:
        """Whether the audit log has what is due for it."""
        if not self._redis.over:
            return False
        try:
            self._losses.write(at_once=at_once)
        except LedgerUnavailable as error:
            self._redis.failed(error)
            return False
        return True

    def _lost(self, holding: Holding | None, error: LeaseLost) -> None:
        """It lapsed, or the ledger was started anew: what is trained of it is trained again."""
        self._redis.answered()
        if holding is not None:
            self._holdings.remove(holding)
            _log.warning("lease_lost", trained_in_vain=holding.outcome().trained, why=str(error))
