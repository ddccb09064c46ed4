"""The cheapest pool: GPU time, lateness and resizes weighed over the futures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from estimator.planner.futures import Futures
from estimator.planner.rollout import LATE, LEFT, OVERDUE, Counts, Floats, roll
from estimator.planner.timing import Timing
from estimator.situation import Situation

OVERDUE_SHARE = 0.1
"""A sample overdue by one more SLO costs this share of a late one: late samples still matter."""
RESIZE_SHARE = 1.3
"""A resize costs as much as this many starts of one worker, besides the pause: a pool must not fidget."""
SPREAD_MAX = 10
"""Beyond this many candidates only some are tried at first."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A pool size, what it is expected to come to, and the same for its neighbours."""

    workers: int
    cost: float
    """In worker-seconds over the horizon."""
    late_share: float
    """Of the samples that arrive over the horizon or wait now."""
    fewer: tuple[float, float] | None
    """(cost, late share) with one worker less; None where that may not be."""
    more: tuple[float, float] | None


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """One situation with its futures, ready to try candidates on."""

    seen: Situation
    futures: Futures
    timing: Timing
    price: float

    def choose(self) -> Choice:
        """The cheapest candidate within the limits."""
        seen, curve = self.seen, self._curve()
        high = seen.limits.workers_max
        now = min(max(seen.requested, seen.limits.workers_min), high)
        low = max(seen.limits.workers_min, min(self._floor(curve), now))
        tried, costs, late = self._try(self._first(curve, low, now), curve)
        while True:
            best = int(np.argmin(costs))
            beyond = _beyond(tried, best, low, high)
            if len(beyond) == 0:
                break
            more = self._try(beyond, curve)
            tried, costs, late = (
                np.concatenate(pair) for pair in zip((tried, costs, late), more, strict=True)
            )
            order = np.argsort(tried)
            tried, costs, late = tried[order], costs[order], late[order]
        sides = [self._at(tried, costs, late, best + side, tried[best] + side) for side in (-1, 1)]
        return Choice(int(tried[best]), float(costs[best]), float(late[best]), sides[0], sides[1])

    def _curve(self) -> Floats:
        most = max(self.seen.limits.workers_max, self.seen.ready, self.seen.requested)
        curve = np.array([self.seen.capacity.samples_per_s(n) for n in range(most + 1)])
        usable: Floats = np.nan_to_num(curve, nan=0.0, posinf=0.0)
        return usable

    def _floor(self, curve: Floats) -> int:
        """The size below which no forecast may push.

        If the traffic of now stayed, a pool of C(n) would fall behind by (rate - C) a second until
        new workers come, a bin and a lead time from now, and may by then be C·SLO behind:
        C >= rate·(1 - SLO / (SLO + lead + bin)).
        """
        timing = self.timing
        grace = timing.slo_s / (timing.slo_s + timing.lead_time_s + timing.bin_s)
        enough = np.flatnonzero(curve >= self.futures.typical[0] * (1 - grace))
        return int(enough[0]) if len(enough) else len(curve)

    def _first(self, curve: Floats, low: int, now: int) -> Counts:
        """From the present size to the one that typical traffic needs, and one beyond either."""
        high = self.seen.limits.workers_max
        need = self.futures.typical.max() + self.seen.lag / (self.timing.lead_time_s + self.timing.slo_s)
        enough = np.flatnonzero(curve[: high + 1] >= need)
        usual = min(max(int(enough[0]) if len(enough) else high, low), high)
        first, last = max(min(now, usual) - 1, low), min(max(now, usual) + 1, high)
        if last - first <= SPREAD_MAX:
            return np.arange(first, last + 1)
        ends = np.array([now - 1, now, now + 1, usual - 1, usual, usual + 1])
        few = np.concatenate([np.linspace(first, last, SPREAD_MAX).astype(np.int64), ends])
        return np.unique(np.clip(few, first, last))

    def _try(self, candidates: Counts, curve: Floats) -> tuple[Counts, Floats, Floats]:
        """Cost and late share of each."""
        seen, timing = self.seen, self.timing
        outcome = roll(
            candidates, self.futures.rates, self.futures.chances, curve, self._arriving_s(),
            seen.ready, seen.requested, seen.lag, max(seen.lag_s, 1e-9),
            timing.step_s, timing.slo_s, timing.lead_time_s, seen.pause_s,
        )  # fmt: skip
        one = max(float(curve[1]) if len(curve) > 1 else 0.0, 1e-9)
        late, overdue = outcome[:, LATE], outcome[:, OVERDUE] / timing.slo_s
        held = candidates * (timing.steps * timing.step_s)
        resize = (RESIZE_SHARE * timing.lead_time_s + seen.pause_s * seen.ready) * (
            candidates != seen.requested
        )
        costs = held + (outcome[:, LEFT] + self.price * (late + OVERDUE_SHARE * overdue)) / one + resize
        arrive = self.futures.chances @ self.futures.rates.sum(axis=1) * timing.step_s + seen.lag
        return candidates, costs, late / max(float(arrive), 1e-9)

    def _arriving_s(self) -> Floats:
        """Seconds until each start is ready. One that is overdue may take as long again as it is late."""
        lead_s, now_s = self.timing.lead_time_s, self.seen.now_s
        ages = [max(now_s - since_s, 0.0) for since_s in self.seen.starting_since_s]
        return np.sort(np.array([max(lead_s - age, age - lead_s, 0.0) for age in ages], dtype=np.float64))

    def _at(
        self, tried: Counts, costs: Floats, late: Floats, place: int, workers: int
    ) -> tuple[float, float] | None:
        if 0 <= place < len(tried) and tried[place] == workers:
            return float(costs[place]), float(late[place])
        return None


def _beyond(tried: Counts, best: int, low: int, high: int) -> Counts:
    """Candidates next to the best one that were not tried yet."""
    at = int(tried[best])
    below = at - 1 if best == 0 else int(tried[best - 1]) + 1
    above = at + 1 if best == len(tried) - 1 else int(tried[best + 1]) - 1
    wanted = [n for n in (below, at - 1, at + 1, above) if low <= n <= high]
    return np.setdiff1d(np.array(wanted, dtype=np.int64), tried)
