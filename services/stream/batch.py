"""Batches of samples, and which leases they finish."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, NamedTuple

from confluent_kafka import Message

from shuffler.lease import Completed, Lease

Decode = Callable[[Message], Any]
"""From Kafka's message to a sample: the user's own."""


_EVERY_SAMPLE: Final = 64
"""Up to so many samples, each is asked for its timestamp."""
_STRIDE: Final = 16


@dataclass(slots=True)
class Part:
    """Samples of one lease that are trained in one step: how many, and the offset behind the last."""

    count: int
    upto: int
    done: bool = False
    late: int = 0
    epoch: int = 0
    """Of the ledger, when the lease was taken."""


class Outcome(NamedTuple):
    """Of a lease's samples below `upto`: how many were trained, how many of them late, how many lost."""

    upto: int
    trained: int
    late: int
    lost: int


@dataclass(slots=True)
class Holding:
    """A lease that this worker holds, and how far it is."""

    lease: Lease
    read_to: int = 0
    """Every sample of the lease below this offset was read."""
    exhausted: bool = False
    """All of the lease was read."""
    deleted: list[tuple[int, int]] = field(default_factory=list)
    """Ranges that Kafka deleted before they were read."""
    parts: list[Part] = field(default_factory=list)
    """All that was read, in order."""

    @property
    def settled(self) -> bool:
        """Whether nothing that was read is still to be trained."""
        return all(part.done for part in self.parts)

    def outcome(self) -> Outcome:
        """What may be told to the ledger: the part from the start of which everything is trained."""
        upto, parts = self.read_to, self.parts
        if not self.settled:
            parts = list(takewhile(lambda part: part.done, self.parts))
            upto = parts[-1].upto if parts else self.lease.start
        return Outcome(
            upto=upto,
            trained=sum(part.count for part in parts),
            late=sum(part.late for part in parts),
            lost=sum(stop - start for start, stop in self.deleted if stop <= upto),
        )

    def completed(self) -> Completed:
        """What to tell the ledger of a lease that is read and trained to its end."""
        outcome = self.outcome()
        return Completed(self.lease, outcome.trained, outcome.late, outcome.lost)


class Batch:
    """Samples to train in one step. Call `done()` once the parameters have taken them in."""

    __slots__ = ("_decode", "_fresh_within_s", "_given_at_s", "_now_s", "_on_done", "_parts", "samples")

    def __init__(
        self,
        samples: list[Message],
        parts: list[Part],
        *,
        fresh_within_s: float,
        on_done: Callable[[int, float], None],
        decode: Decode = Message.value,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.samples = samples
        """Kafka's messages: `.value()`, `.timestamp()`, `.offset()`, `.partition()`."""
        self._decode = decode
        self._parts = parts
        self._fresh_within_s = fresh_within_s
        self._on_done = on_done
        self._now_s = now_s
        self._given_at_s = time.monotonic()

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def epoch(self) -> int:
        """Of the ledger when the newest of its leases was taken: a rewind raises it. 0 without leases."""
        return max(part.epoch for part in self._parts)

    def decoded(self) -> list[Any]:
        """The samples through the stream's `decode`; their bytes when it has none. Raises what it raises."""
        return list(map(self._decode, self.samples))

    def done(self) -> None:
        """The samples are trained for good: they will not be given out again. Twice is once."""
        if self._parts[-1].done:
            return
        oldest_fresh_ms = (self._now_s() - self._fresh_within_s) * 1000
        first = 0
        for part in self._parts:
            part.late = _older(self.samples, range(first, first + part.count), oldest_fresh_ms)
            part.done = True
            first += part.count
        self._on_done(len(self.samples), time.monotonic() - self._given_at_s)


def _older(samples: list[Message], places: range, than_ms: float) -> int:
    """How many samples at these places are older. One without a timestamp has no age, so it is not.

    Asking every message for its timestamp costs as much as reading it. In a long list every 16th is
    asked and stands for those around it: one count may be off by some, the sum of many is not.
    """
    asked = places if len(places) <= _EVERY_SAMPLE else places[_STRIDE // 2 :: _STRIDE]
    older = sum(1 for place in asked if 0 <= samples[place].timestamp()[1] < than_ms)
    return round(older * len(places) / max(1, len(asked)))
