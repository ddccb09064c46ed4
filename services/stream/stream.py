"""An iterator over batches, and the threads behind it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Final

from confluent_kafka import Message

from services.stream.batch import Batch, Decode
from services.stream.batch_reader import BatchReader
from services.stream.committer import Committer
from services.stream.feeder import Feeder
from services.stream.frontier import Frontier
from services.stream.heartbeat import Heartbeat
from services.stream.lease_queue import LeaseQueue
from services.stream.lease_reader import LeaseReader
from services.stream.loss_log import LossLog
from services.stream.outage import Outage
from services.stream.plan import StreamPlan
from services.stream.ports import LeaseLedger
from services.stream.topic import Topic
from shuffler.errors import NotOpened

_BEATS: Final = 4
"""Heartbeats in a lease's time-to-live: one or two may be lost."""
LAST_COMMIT_S: Final = 12.0
"""Waited for the turn to commit when leaving: longer than a worker that was killed at it keeps its turn, or
the last to leave would leave the group behind what is trained."""


class SampleStream(Iterator[Batch]):
    """Batches of a topic, shared with the other workers of the job through the ledger.

    Takes its first lease when it is first asked for a batch. `stop` may be called from any thread
    or signal handler; the iteration then ends by itself, when what was read is trained, given back
    and committed. `close`, for leaving earlier, gives back at once what is not trained.
    """

    def __init__(
        self,
        topic: Topic,
        ledger: LeaseLedger,
        plan: StreamPlan,
        *,
        worker: str,
        losses: LossLog,
        ask_preference: Callable[[], Sequence[int]] = tuple,
        ask_standby: Callable[[], bool] | None = None,
        decode: Decode = Message.value,
    ) -> None:
        self._plan = plan
        # A worker that is started again under its old name must not keep its dead self's leases alive.
        holder = f"{worker}.{secrets.token_hex(4)}"
        leases, kafka = LeaseQueue(), Outage("kafka")
        self._batches = BatchReader(
            leases,
            LeaseReader(topic, kafka),
            batch=plan.batch,
            linger_s=plan.linger_s,
            fresh_within_s=plan.fresh_within_s,
            decode=decode,
        )
        self._topic = topic
        self._heartbeat = Heartbeat(
            ledger,
            holder=holder,
            every_s=min(plan.terms.ttl_s / _BEATS, plan.commit_s),
            ask_preference=ask_preference,
            ask_standby=ask_standby,
            on_activation=leases.wake,
        )
        self._committer = Committer(
            topic,
            ledger,
            Frontier(topic, ledger, plan),
            holder=holder,
            every_s=plan.commit_s,
            losses=losses,
        )
        self._feeder = Feeder(
            topic,
            ledger,
            plan,
            leases,
            self._batches,
            holder=holder,
            kafka=kafka,
            losses=losses,
            prefer=self._heartbeat.preference,
            stands_by=self._heartbeat.stands_by,
        )
        self._ended = Event()
        self._feeding = self._thread("feeder", self._feeder.run)
        self._around = (
            self._thread("heartbeat", lambda: self._heartbeat.run(self._ended)),
            self._thread("committer", lambda: self._committer.run(self._ended)),
        )
        self._failure: BaseException | None = None
        self._started = self._closed = False

    def __next__(self) -> Batch:
        if not self._started and not self._closed:
            self._started = True
            for thread in (self._feeding, *self._around):
                thread.start()
        batch = None if self._closed else self._batches.take()
        if batch is not None:
            return batch
        self.close()
        if self._failure is not None:
            raise self._failure
        raise StopIteration

    def connect(self) -> None:
        """Ask once whatever training will ask, so that a worker that says it is ready is: the first lease
        and its records then wait for no connection.

        Raises StreamError: also while the group has members, which would refuse our commits.
        """
        self._topic.partitions()
        self._topic.refuse_members()
        self._topic.greet_leaders()
        self._heartbeat.prepare()
        with suppress(NotOpened):  # whoever takes the first lease opens the ledger
            # Follow the group where it is ahead of the ledger, or was moved: before any of it is relied on.
            self._committer.reconcile()
            self._feeder.prepare()

    def stop(self) -> None:
        """Take no more work; the iteration ends when what was read is trained."""
        self._heartbeat.leave(within_s=self._plan.held_s)
        self._feeder.stop(drain_s=self._plan.drain_s)

    def close(self) -> None:
        """Give back what is not trained, commit the watermark, end the threads. Twice is once."""
        if self._closed:
            return
        self._closed = True
        self._feeder.stop(drain_s=0.0)
        if not self._started:
            return
        self._feeding.join()  # leases are kept alive until it has given them back
        self._batches.halt()  # whoever closes the consumer next must not meet a reader
        self._ended.set()
        for thread in self._around:
            thread.join()
        self._committer.commit_last(within_s=LAST_COMMIT_S)

    def _thread(self, name: str, task: Callable[[], None]) -> Thread:
        return Thread(target=self._guard, args=(task,), name=f"stream-{name}", daemon=True)

    def _guard(self, task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - raised again in the trainer's thread
            self._failure = error
            self._feeder.stop(drain_s=0.0)
