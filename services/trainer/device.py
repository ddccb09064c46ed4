"""What a step runs on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

_SLACK_S: Final = 0.02
"""A step that starts this soon after the last one counts as following on."""


class Device(Protocol):
    """Trains a batch in one step."""

    def step(self, samples: int) -> None:
        """Train; return when it is done."""
        ...


class EmulatedDevice:
    """Takes as long for a step as a GPU would, and computes nothing.

    A full batch takes `step_ms`, a part of one its share: what is measured as samples per busy
    second is then the device's speed at any load. Steps that follow on each other are timed from
    the end of the last, so that what comes in between, and a late wake-up, do not add up.
    """

    def __init__(
        self,
        *,
        step_ms: float,
        batch: int,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._sample_s = step_ms / 1000 / batch
        self._now_s = now_s
        self._sleep = sleep
        self._free_at_s = float("-inf")

    def step(self, samples: int) -> None:
        """Train `samples` of one batch."""
        now_s = self._now_s()
        follows_on = now_s - self._free_at_s < min(_SLACK_S, samples * self._sample_s)
        self._free_at_s = (self._free_at_s if follows_on else now_s) + samples * self._sample_s
        left_s = self._free_at_s - self._now_s()
        if left_s > 0:
            self._sleep(left_s)
