"""How many requests a second one caller may make."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

CALLERS_KEPT = 10_000
"""Callers remembered; the one silent for longest is forgotten first, and then has a full bucket again."""


@dataclass(slots=True)
class _Bucket:
    left: float
    at_s: float


class RateLimit:
    """A bucket for each caller: `burst` at once, refilled at `per_s`.

    >>> limit = RateLimit(per_s=1.0, burst=2)
    >>> [limit.wait_s("ann", now_s=0.0) for _ in range(3)], limit.wait_s("bob", now_s=0.0)
    ([0.0, 0.0, 1.0], 0.0)
    """

    def __init__(self, *, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, caller: str, *, now_s: float) -> float:
        """Take one from the caller's bucket and return 0, or take none and say how long to wait."""
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = _Bucket(self._burst, now_s)
            if len(self._buckets) > CALLERS_KEPT:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(caller)
        gained = max(0.0, now_s - bucket.at_s) * self._per_s
        bucket.left, bucket.at_s = min(self._burst, bucket.left + gained), now_s
        if bucket.left >= 1.0:
            bucket.left -= 1.0
            return 0.0
        return (1.0 - bucket.left) / self._per_s

    def spent(self, caller: str, *, now_s: float) -> bool:
        """Whether the caller would have to wait; takes nothing."""
        bucket = self._buckets.get(caller)
        if bucket is None:
            return False
        return bucket.left + max(0.0, now_s - bucket.at_s) * self._per_s < 1.0
