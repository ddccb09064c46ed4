"""Dates samples that arrived while nobody was looking, by asking Kafka for offsets by time. Pure.

The meter's own points say that a sample arrived between two instants. Where
these are far apart, because the meter was away or had not started, the gap is
bisected: the first offset from an instant on tells on which side the sample lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from services.meter.poll import UNKNOWN

Ask = Callable[[Sequence[tuple[int, float]]], Sequence[int]]
"""For each (partition, epoch seconds) the first offset from then on, UNKNOWN where it cannot be told."""

LOOK_BACK_S = 3600.0
"""How far before the oldest point the first look goes; each further one goes four times as far."""
LOOK_BACK_MAX_S = 365 * 86_400.0
"""A sample older than about this is as old as anybody cares."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The sample at `offset` arrived in (after_s, before_s]; `after_s` is -inf when nothing is known."""

    partition: int
    offset: int
    after_s: float
    before_s: float

    @property
    def width_s(self) -> float:
        return self.before_s - self.after_s


def settle(
    doubts: Sequence[Doubt], ask: Ask, *, epoch_s: float, resolution_s: float = 1.0, calls_max: int = 40
) -> list[Doubt]:
    """The same samples, dated to `resolution_s` where Kafka can tell, in at most `calls_max` calls.

    `epoch_s` is the date of elapsed second zero. Doubts of different partitions
    are asked about together. A partition may have one doubt.
    """
    settled = list(doubts)
    reach_s = [LOOK_BACK_S] * len(settled)
    given_up: set[int] = set()
    for _ in range(calls_max):
        open_ = [i for i, d in enumerate(settled) if d.width_s > resolution_s and i not in given_up]
        if not open_:
            break
        probes = {i: _probe_s(settled[i], reach_s[i]) for i in open_}
        answers = ask([(settled[i].partition, epoch_s + probes[i]) for i in open_])
        for i, answer in zip(open_, answers, strict=True):
            # The first offset from then on is at or before ours: ours came then or later.
            if answer == UNKNOWN:
                given_up.add(i)
            elif answer <= settled[i].offset:
                settled[i] = replace(settled[i], after_s=probes[i])
            else:
                settled[i] = replace(settled[i], before_s=probes[i])
                reach_s[i] *= 4
                if math.isinf(settled[i].after_s) and reach_s[i] > LOOK_BACK_MAX_S:
                    given_up.add(i)
    return settled


def _probe_s(doubt: Doubt, reach_s: float) -> float:
    if math.isinf(doubt.after_s):
        return doubt.before_s - reach_s
    return (doubt.after_s + doubt.before_s) / 2
