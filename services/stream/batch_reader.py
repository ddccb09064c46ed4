"""Batches from leases, read in the thread that trains them.

Handing every record from a reading thread to a training one was measured to cost half as much again as
reading it: both want the interpreter, and the records' memory goes from one core to the other.
librdkafka reads ahead in threads of its own, so the trainer's finds its records there.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import Final, Protocol

from confluent_kafka import Message

from services.stream.batch import Batch, Decode, Holding, Part
from services.stream.lease_queue import LeaseQueue

_READ_S: Final = 0.05
"""How long one read may wait for records, and so how long `halt` may take."""


class LeaseSource(Protocol):
    """Where the records of leases come from, one lease at a time."""

    def begin(self, holding: Holding) -> None:
        """Read this lease from now on; the one begun already stays as it is."""
        ...

    def read(self, holding: Holding, limit: int, *, timeout_s: float) -> list[Message]:
        """Up to `limit` records, and note in `holding` how far it is read."""
        ...


class BatchReader:
    """Cuts batches. A batch may span leases, so that small ones fill it together."""

    def __init__(
        self,
        leases: LeaseQueue,
        source: LeaseSource,
        *,
        batch: int,
        linger_s: float,
        fresh_within_s: float,
        decode: Decode = Message.value,
    ) -> None:
        self._leases = leases
        self._source = source
        self._batch = batch
        self._linger_s = linger_s
        self._fresh_within_s = fresh_within_s
        self._decode = decode
        self._reading = Lock()
        self._begun = False

    def take(self) -> Batch | None:
        """The next batch, waiting for it: full, or what there is after a while. None after the end.

        The first is what there is: a worker that has just come trains at once.
        """
        samples: list[Message] = []
        parts: list[Part] = []
        with self._reading:
            ends_lease = self._gather(samples, parts)
        if not samples:
            self._leases.await_end()
        if self._leases.ended:
            return None
        self._begun = True
        return Batch(
            samples,
            parts,
            fresh_within_s=self._fresh_within_s,
            on_done=self._on_last_done if ends_lease else self._on_done,
            decode=self._decode,
        )

    def prepare(self) -> None:
        """Have Kafka fetch the next lease already, unless somebody is reading. From any thread."""
        if self._reading.acquire(blocking=False):
            try:
                self._begin_next()
            finally:
                self._reading.release()

    def halt(self) -> None:
        """Wait until nobody reads. Once the queue is closing, nothing is read after that."""
        with self._reading:
            pass

    def _gather(self, samples: list[Message], parts: list[Part]) -> bool:
        """Fill the batch; whether it holds the last samples of a lease."""
        ends_lease = False
        give_at_s = float("inf")
        wait_s = _READ_S
        while len(samples) < self._batch and wait_s > 0 and not self._leases.closing:
            holding = self._leases.head(wait_s)
            if holding is not None:
                ends_lease |= self._read(holding, samples, parts, wait_s)
            if samples and len(samples) < self._batch:
                now_s = time.monotonic()
                give_at_s = min(give_at_s, now_s + (self._linger_s if self._begun else 0.0))
                wait_s = min(_READ_S, give_at_s - now_s)
        if ends_lease:
            self._begin_next()
        return ends_lease

    def _read(self, holding: Holding, samples: list[Message], parts: list[Part], wait_s: float) -> bool:
        """Add to the batch from one lease; whether that was the last of it.

        The part is noted before the end of the lease: whoever sees the end must see what is untrained.
        """
        records = self._source.read(holding, self._batch - len(samples), timeout_s=wait_s)
        if records:
            samples += records
            parts.append(holding.parts[-1])
        if holding.exhausted:
            self._leases.finish()
        return holding.exhausted

    def _begin_next(self) -> None:
        """While the trainer is at this batch, Kafka fetches the next."""
        following = self._leases.head(0.0)
        if following is not None:
            self._source.begin(following)

    def _on_done(self, samples: int, took_s: float) -> None:
        if samples == self._batch:  # a part of a batch says little of the speed
            self._leases.learn(samples, took_s)

    def _on_last_done(self, samples: int, took_s: float) -> None:
        self._on_done(samples, took_s)
        self._leases.wake()
