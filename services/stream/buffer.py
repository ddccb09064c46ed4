"""Samples between the thread that reads and the thread that trains."""

from __future__ import annotations

import time
from collections import deque
from threading import Condition

from confluent_kafka import Message

from services.stream.batch import Batch, Decode, Holding, Part

_SMOOTHING = 0.2
"""Weight of the latest step in this worker's speed."""


class SampleBuffer:
    """Records in, batches out. A batch may span leases, so that small ones fill it together."""

    def __init__(
        self, *, batch: int, linger_s: float, fresh_within_s: float, decode: Decode = Message.value
    ) -> None:
        self._decode = decode
        self._batch = batch
        self._linger_s = linger_s
        self._fresh_within_s = fresh_within_s
        self._changed = Condition()
        self._records: deque[tuple[Holding, list[Message]]] = deque()
        self._count = 0
        self._waiting_since_s = 0.0
        self._flushing = self._ended = False
        self._rate_per_s = 0.0

    @property
    def count(self) -> int:
        """Samples that are read and not yet handed out."""
        return self._count

    @property
    def rate_per_s(self) -> float:
        """How fast full batches are trained; 0 before the first."""
        return self._rate_per_s

    def put(self, holding: Holding, records: list[Message]) -> None:
        """Add what was read of a lease. Never blocks: a lease is the limit."""
        if not records:
            return
        with self._changed:
            if self._count == 0:
                self._waiting_since_s = time.monotonic()
            holding.read += len(records)
            self._records.append((holding, records))
            self._count += len(records)
            self._changed.notify_all()

    def take(self) -> Batch | None:
        """The next batch, waiting for it: full, or what there is after a while. None after the end."""
        with self._changed:
            while True:
                wait_s = self._wait_s()
                if wait_s == 0.0:
                    return self._cut()
                if self._ended and self._count == 0:
                    return None
                self._changed.wait(wait_s)

    def wait(self, wait_s: float) -> None:
        """Until something happens here, for `wait_s` at most."""
        with self._changed:
            self._changed.wait(wait_s)

    def wake(self) -> None:
        """Something happened elsewhere that whoever waits here should look at."""
        with self._changed:
            self._changed.notify_all()

    def flush(self) -> None:
        """No more waiting for full batches: nothing more is coming."""
        with self._changed:
            self._flushing = True
            self._changed.notify_all()

    def end(self, *, discard: bool = False) -> None:
        """Nothing will be put in again. With `discard`, what is left is not handed out either."""
        with self._changed:
            self._ended = self._flushing = True
            if discard:
                self._records.clear()
                self._count = 0
            self._changed.notify_all()

    def _wait_s(self) -> float | None:
        """0 when a batch may be cut; None when there is nothing to cut from."""
        if self._count == 0:
            return None
        if self._count >= self._batch or self._flushing:
            return 0.0
        return max(0.0, self._waiting_since_s + self._linger_s - time.monotonic())

    def _cut(self) -> Batch:
        samples: list[Message] = []
        parts: list[Part] = []
        while self._records and len(samples) < self._batch:
            holding, records = self._records.popleft()
            room = self._batch - len(samples)
            if len(records) > room:
                self._records.appendleft((holding, records[room:]))
                records = records[:room]
            part = Part(len(records), upto=(records[-1].offset() or 0) + 1)
            holding.parts.append(part)
            parts.append(part)
            samples += records
        self._count -= len(samples)
        self._waiting_since_s = time.monotonic()
        self._changed.notify_all()
        return Batch(
            samples, parts, fresh_within_s=self._fresh_within_s, on_done=self._on_done, decode=self._decode
        )

    def _on_done(self, samples: int, took_s: float) -> None:
        with self._changed:
            if samples == self._batch:  # a part of a batch says little of the speed
                rate_per_s = samples / max(took_s, 1e-6)
                known_per_s = self._rate_per_s or rate_per_s
                self._rate_per_s = known_per_s + _SMOOTHING * (rate_per_s - known_per_s)
            self._changed.notify_all()
