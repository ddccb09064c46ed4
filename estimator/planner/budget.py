"""The error budget: how much was late over the last days, and what lateness costs because of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median_low

DAYS = 7.0
"""The budget's window, in seasons: days, unless time runs faster."""
BUCKETS = 28
DAY = 4
"""Buckets of a season."""
PRICE_AT = 0.1
"""Price of a late sample at the target's own rate: 1 + PRICE_AT / late_share_target works of a sample.

However much may be late, one that is late is worth no less than the work that training it takes."""
SWING_MAX = 4.0
"""How far what was late over the week may move the price, either way."""
LASTING_UP_TO = 100.0
"""Where it is late day after day, lateness gets dearer than that up to this price. What is late at a higher
one comes in jumps that nobody foresees: a dearer pool is hardly less late."""


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """Samples trained and samples late, in buckets over a rolling week.

    Parts of the week not seen yet count as if they had kept the target: a first bad
    hour is no reason to panic, nor a first good one to be careless.
    """

    trained: tuple[float, ...] = ()
    late: tuple[float, ...] = ()
    bucket: int = 0
    """Number of the newest bucket since time began."""

    def seen(self, now_s: float, trained: float, late: float, *, season_s: float) -> ErrorBudget:
        """The budget with what was trained just before `now_s`, and how much of it was late."""
        bucket = int(now_s // (DAYS * season_s / BUCKETS))
        behind = bucket - self.bucket
        if not self.trained or abs(behind) >= BUCKETS:  # the first, or time jumped
            return ErrorBudget((trained,), (late,), bucket)
        empty = (0.0,) * max(behind, 0)  # a clock set back a little costs no week
        done, missed = (*self.trained, *empty)[-BUCKETS:], (*self.late, *empty)[-BUCKETS:]
        return ErrorBudget((*done[:-1], done[-1] + trained), (*missed[:-1], missed[-1] + late), bucket)

    def late_share(self, target: float) -> float:
        """Late share over the window, what is unknown at the target.

        >>> ErrorBudget((100.0,) * 14, (2.0,) * 14).late_share(0.01)
        0.015
        """
        trained = sum(self.trained)
        if trained <= 0:
            return target
        known = len(self.trained) / BUCKETS
        return known * sum(self.late) / trained + (1 - known) * target

    def usual_day(self, target: float) -> float:
        """Late share of the day in the middle, one at the target among them: what one bad day does not move.

        >>> ErrorBudget((100.0,) * 12, (8.0,) * 4 + (0.0,) * 4 + (2.0,) * 4).usual_day(0.01)
        0.01
        """
        days = [
            sum(self.late[first : first + DAY]) / trained
            for first in range(len(self.trained) % DAY, len(self.trained), DAY)
            if (trained := sum(self.trained[first : first + DAY])) > 0
        ]
        return median_low([*days, target])

    def price(self, target: float) -> float:
        """What a late sample costs, in works of one sample (the worker time that training it takes).

        Too much late so far makes lateness dearer, too little makes it cheaper, by the root of the
        ratio: much of what is late comes in jumps that hardly any price avoids, and one in proportion
        to them is dear for a week and saves little. What is late on most days is no such jump: there the
        price was too low for this traffic, and rises by the square besides, up to a limit.
        """
        target = min(max(target, 1e-6), 1.0)
        swing = math.sqrt(self.late_share(target) / target)
        price = (1 + PRICE_AT / target) * min(max(swing, 1 / SWING_MAX), SWING_MAX)
        lasting = max(self.usual_day(target) / target, 1.0) ** 2
        return max(price, min(price * lasting, LASTING_UP_TO))


def late_part(lag_before_s: float, lag_now_s: float, slo_s: float) -> float:
    """The share of the time between two readings in which what was trained was late.

    The age of the oldest sample goes from one to the other in a line.

    >>> late_part(50.0, 70.0, 60.0), late_part(0.0, 59.0, 60.0), late_part(90.0, 61.0, 60.0)
    (0.5, 0.0, 1.0)
    """
    low, high = sorted((lag_before_s, lag_now_s))
    if high <= slo_s:
        return 0.0
    return 1.0 if low >= slo_s else (high - slo_s) / (high - low)
