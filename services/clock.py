"""Clocks: the system's, and one that a test or a simulation moves by hand."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time

SET_BACK_S = 1.0
"""More than sleeping is inexact, or a clock that is slewed moves."""


def elapsed_s() -> float:
    """Seconds since some fixed moment, never set back, time asleep included where the system tells it.

    The plain monotonic clock stands still while a virtual machine is suspended: a lease would
    seem to have lasted.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class SystemClock:
    """The machine's wall clock."""

    def now_s(self) -> float:
        return time.time()

    async def sleep_until(self, at_s: float) -> None:
        """Return at `at_s`, or at once when that has passed.

        Sleeps on when the clock was set back a little. By more than `SET_BACK_S`, the time that was left has
        passed all the same: a loop that waited for its next tick must not stand still for an hour.
        """
        left_s = at_s - time.time()
        while left_s > 0:
            await asyncio.sleep(left_s)
            left_s = at_s - time.time()
            if left_s > SET_BACK_S:
                return


class VirtualClock:
    """Time that stands still until it is advanced.

    Whoever sleeps is woken in the order of their times, and runs when the advancing side next
    yields to the event loop.

    >>> clock = VirtualClock(100.0)
    >>> clock.advance(5.0)
    >>> clock.now_s()
    105.0
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now_s(self) -> float:
        return self._now_s

    async def sleep_until(self, at_s: float) -> None:
        """Return once time was advanced to `at_s`; when that has passed, after the others had a turn."""
        if at_s <= self._now_s:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (at_s, next(self._order), woken))
        await woken

    def next_wake_s(self) -> float:
        """When the next sleeper wakes; infinity when nobody sleeps."""
        self._forget_cancelled()
        return self._sleepers[0][0] if self._sleepers else math.inf

    def advance(self, by_s: float) -> None:
        """Move time on by `by_s` and wake who is due."""
        self.advance_to(self._now_s + by_s)

    def advance_to(self, at_s: float) -> None:
        """Move time on to `at_s` and wake who is due. Raises ValueError for a time in the past."""
        if not at_s >= self._now_s:  # also rejects NaN
            raise ValueError(f"cannot advance to {at_s}: it is {self._now_s} already")
        self._now_s = at_s
        while self.next_wake_s() <= at_s:
            _, _, woken = heapq.heappop(self._sleepers)
            woken.set_result(None)

    def _forget_cancelled(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
