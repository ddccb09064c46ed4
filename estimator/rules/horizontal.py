"""What Kubernetes' HPA does between a desired number and the number it sets.

Stabilisation windows and rate limits, from `podautoscaler/horizontal.go`:
with `behavior` set (`behaved`) and without it (`unbehaved`, what KEDA gets).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from estimator.situation import Limits

TOLERANCE = 0.1
PERIOD_S = 15.0
DOWN_WINDOW_S = 300.0
UP_PODS, UP_PERCENT, UP_PERIOD_S = 4, 100, 15.0
DOWN_PERCENT, DOWN_PERIOD_S = 100, 15.0


@dataclass(frozen=True, slots=True)
class Past:
    """What the controller remembers: raw recommendations and the changes it made, newest last."""

    recommended: tuple[tuple[float, int], ...] = ()
    changed: tuple[tuple[float, int], ...] = ()

    def since(self, at_s: float) -> list[int]:
        """The recommendations made at `at_s` or later."""
        return [workers for when_s, workers in self.recommended if when_s >= at_s]

    def change_since(self, at_s: float) -> int:
        """Workers added less workers removed after `at_s`."""
        return sum(change for when_s, change in self.changed if when_s > at_s)

    def after(self, now_s: float, desired: int, change: int, *, keep_s: float) -> Past:
        """With this decision added and what is older than `keep_s` forgotten."""
        first_s = now_s - keep_s
        changed = (*self.changed, (now_s, change)) if change else self.changed
        return Past(
            (*[r for r in self.recommended if r[0] >= first_s], (now_s, desired)),
            tuple([c for c in changed if c[0] > now_s - max(UP_PERIOD_S, DOWN_PERIOD_S)]),
        )


def in_tolerance(ratio: float) -> bool:
    """Whether HPA leaves a ratio of usage to target alone.

    >>> in_tolerance(64 / 63), in_tolerance(1.2)
    (True, False)
    """
    return abs(1.0 - ratio) <= TOLERANCE + 1e-12


def behaved(
    desired: int,
    current: int,
    past: Past,
    limits: Limits,
    *,
    now_s: float,
    up_window_s: float = 0.0,
    down_window_s: float = DOWN_WINDOW_S,
) -> tuple[int, Past]:
    """The size to set with `behavior` set, at its defaults: 4 pods or 100 % a 15 s up, 100 % a 15 s down."""
    lowest = min([desired, *past.since(now_s - up_window_s)] if up_window_s else [desired])
    highest = max([desired, *past.since(now_s - down_window_s)])
    stable = min(max(current, lowest), highest)
    start_up = current - past.change_since(now_s - UP_PERIOD_S)
    start_down = current - past.change_since(now_s - DOWN_PERIOD_S)
    if stable > current:
        most = max(start_up + UP_PODS, math.ceil(start_up * (1 + UP_PERCENT / 100)))
        stable = min(stable, max(most, current))
    elif stable < current:
        least = int(start_down * (1 - DOWN_PERCENT / 100))
        stable = max(stable, min(least, current))
    workers = min(max(stable, limits.workers_min), limits.workers_max)
    return workers, past.after(now_s, desired, workers - current, keep_s=max(up_window_s, down_window_s))


def unbehaved(desired: int, current: int, past: Past, limits: Limits, *, now_s: float) -> tuple[int, Past]:
    """The size to set without `behavior`: the highest of five minutes, at most double (or 4)."""
    stable = max([desired, *past.since(now_s - DOWN_WINDOW_S)])
    most = min(limits.workers_max, max(2 * current, 4))
    workers = min(max(stable, limits.workers_min), max(most, limits.workers_min))
    return workers, past.after(now_s, desired, workers - current, keep_s=DOWN_WINDOW_S)
