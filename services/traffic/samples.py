"""Padding of any size, for tests of transport: of users, a few of whom are far busier than the rest."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class SampleMaker:
    """Keys and payloads, the same for the same seed.

    User k is drawn in proportion to 1/(k+1)^skew, and the user is the message's
    key: with skew, a few partitions get most of the traffic. Zero is even.

    >>> maker = SampleMaker(payload_bytes=60, seed=7)
    >>> [(key, len(value)) for key, value in maker.make(2, at_s=1.5)]
    [(b'user-3327', 60), (b'user-6', 60)]
    """

    users: int = 10_000
    skew: float = 0.8
    payload_bytes: int = 100
    seed: int = 1
    made: int = 0
    """Samples so far; the next one carries this as its sequence number."""
    _upto: NDArray[np.float64] = field(init=False, repr=False)
    _random: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.users < 1 or not self.skew >= 0 or self.payload_bytes < 0:
            raise ValueError(
                f"users ({self.users}) must be at least 1, skew ({self.skew}) and payload_bytes "
                f"({self.payload_bytes}) must not be negative"
            )
        weights = np.arange(1, self.users + 1, dtype=np.float64) ** -self.skew
        self._upto = np.cumsum(weights) / weights.sum()
        self._random = np.random.default_rng([self.seed, 1])

    @property
    def hidden_auc(self) -> float | None:
        """There is nothing to learn from padding."""
        return None

    def make(self, count: int, *, at_s: float, simulated_s: float = 0.0) -> list[tuple[bytes, bytes]]:
        """The next `count` samples as (key, value), of events that happened at `at_s`."""
        del simulated_s
        drawn = np.searchsorted(self._upto, self._random.random(count), side="right")
        return [self._sample(int(user), at_s) for user in np.minimum(drawn, self.users - 1)]

    def _sample(self, user: int, at_s: float) -> tuple[bytes, bytes]:
        head = b'{"seq":%d,"at_s":%.3f,"user":%d,"pad":"' % (self.made, at_s, user)
        self.made += 1
        # A head that is longer than asked is sent whole: a cut sample would not parse.
        return b"user-%d" % user, head + b"x" * (self.payload_bytes - len(head) - 2) + b'"}'
