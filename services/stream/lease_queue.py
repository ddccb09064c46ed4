"""Leases between the thread that takes them and the thread that reads them."""

from __future__ import annotations

from collections import deque
from threading import Condition

from services.stream.batch import Holding

_SMOOTHING = 0.2
"""Weight of the latest step in this worker's speed."""


class LeaseQueue:
    """Leases in the order in which they are to be read, and what the two threads tell each other.

    The thread that takes leases is woken when one was read to its end or trained to its end, not at
    every batch: a wake-up costs as much as reading a hundred samples.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._leases: deque[Holding] = deque()
        self._closing = self._ended = False
        self._rate_per_s = 0.0

    @property
    def unread(self) -> int:
        """Offsets that are leased and not yet read."""
        with self._changed:
            return sum(holding.lease.end - holding.read_to for holding in self._leases)

    @property
    def rate_per_s(self) -> float:
        """How fast full batches are trained; 0 before the first."""
        return self._rate_per_s

    @property
    def closing(self) -> bool:
        """Whether nothing more is to be read."""
        return self._closing

    @property
    def ended(self) -> bool:
        """Whether what was read and not yet handed out is not to be handed out either."""
        return self._ended

    def put(self, holding: Holding) -> None:
        """Have a lease read, after those before it."""
        with self._changed:
            self._leases.append(holding)
            self._changed.notify_all()

    def head(self, wait_s: float) -> Holding | None:
        """The lease to read now, waiting for one for `wait_s` at most. None while `closing`."""
        with self._changed:
            if not self._leases and not self._closing and wait_s > 0:
                self._changed.wait(wait_s)
            return self._leases[0] if self._leases and not self._closing else None

    def finish(self) -> None:
        """The head was read to its end."""
        with self._changed:
            self._leases.popleft()
            self._changed.notify_all()

    def wait(self, wait_s: float) -> None:
        """Until something happens here, for `wait_s` at most."""
        with self._changed:
            self._changed.wait(wait_s)

    def wake(self) -> None:
        """Something happened that whoever waits here should look at."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more is to be read; what was read is handed out at once, full batch or not."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more is to be handed out."""
        with self._changed:
            self._closing = self._ended = True
            self._changed.notify_all()

    def await_end(self) -> None:
        """Until `end`."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended)

    def learn(self, samples: int, took_s: float) -> None:
        """A full batch of so many samples was trained in so long."""
        rate_per_s = samples / max(took_s, 1e-6)
        known_per_s = self._rate_per_s or rate_per_s
        self._rate_per_s = known_per_s + _SMOOTHING * (rate_per_s - known_per_s)
