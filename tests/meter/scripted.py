"""A topic, a group and a clock that do as the test says."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from services.control.errors import TrafficUnavailable
from services.meter.poll import UNKNOWN, OffsetPoll


class ManualClock:
    """Wall time and elapsed time, each set by hand. Sleeping passes both."""

    def __init__(self, now_s: float = 1_794_820_000.0) -> None:
        self._now_s = now_s
        self._elapsed_s = 500.0

    def now_s(self) -> float:
        return self._now_s

    def elapsed_s(self) -> float:
        return self._elapsed_s

    async def sleep_until(self, at_s: float) -> None:
        self.advance(max(0.0, at_s - self._now_s))
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        self._now_s += seconds
        self._elapsed_s += seconds

    def step(self, seconds: float) -> None:
        """An operator, or NTP, sets the wall clock."""
        self._now_s += seconds


@dataclass
class ScriptedTopic:
    """An OffsetSource. Offsets grow as the clock goes, at the rates that the test sets."""

    clock: ManualClock
    base: list[float]
    per_s: list[float]
    starts: list[int] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    keeps_up: bool = False
    """The group has committed everything."""
    dates_s: list[float] = field(default_factory=list)
    """Epoch seconds of the records of partition 0, where looking up by time is supported."""
    failing: str = ""
    coordinator_failing: str = ""
    missing: tuple[int, ...] = ()
    gate: threading.Event | None = None
    """When set, a poll waits for it."""
    polling: int = 0
    overlapped: bool = False
    polls: int = 0
    closed: bool = False

    def __post_init__(self) -> None:
        self._since_s = self.clock.elapsed_s()

    @property
    def ends(self) -> list[int]:
        seconds = self.clock.elapsed_s() - self._since_s
        return [round(base + rate * seconds) for base, rate in zip(self.base, self.per_s, strict=True)]

    def flow(self, *per_s: float) -> None:
        """Other rates from now on."""
        self.base, self.per_s, self._since_s = [*map(float, self.ends)], [*per_s], self.clock.elapsed_s()

    def poll(self) -> OffsetPoll:
        self.polling += 1
        self.overlapped |= self.polling > 1
        try:
            if self.gate is not None:
                self.gate.wait(20)
            self.polls += 1
            if self.failing:
                raise TrafficUnavailable(self.failing)
            return self._told()
        finally:
            self.polling -= 1

    def _told(self) -> OffsetPoll:
        ends = np.array(
            [UNKNOWN if p in self.missing else e for p, e in enumerate(self.ends)], dtype=np.int64
        )
        return OffsetPoll(
            at_s=self.clock.elapsed_s(),
            ends=ends,
            stable=ends.copy(),
            starts=np.array(self.starts or [0] * len(ends), dtype=np.int64),
            topic_id="id",
            layout_at_s=self.clock.elapsed_s(),
            took_s=0.01,
            errors={"no leader": len(self.missing)} if self.missing else {},
        )

    def commits(self) -> Mapping[int, int]:
        if self.coordinator_failing:
            raise TrafficUnavailable(self.coordinator_failing)
        return dict(enumerate(self.ends)) if self.keeps_up else dict(self.committed)

    def at_times(self, wanted: Sequence[tuple[int, float]]) -> Sequence[int]:
        if not self.dates_s:
            return [UNKNOWN] * len(wanted)
        return [int(np.searchsorted(self.dates_s, at_s)) for _, at_s in wanted]

    def close(self) -> None:
        self.closed = True
