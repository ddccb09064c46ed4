"""`madu`: a rule after Madu ("The Power of Prediction", SoCC'22), as far as it is public.

Known: a probabilistic forecast of the workload, a linear regression from workload to
usage, and the fewest containers that keep usage at its target. Ours, since the paper's
are not public: the margin `k`, how far it looks, and the wait before shrinking.
It sees neither lag nor a throughput curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from estimator.capacity import Capacity
from estimator.reason import Reason
from estimator.rules.rule import Rule, is_due
from estimator.rules.settle import Settling, settle
from estimator.situation import Situation, Sizing
from forecasting.forecast import Forecast

PERIOD_S = 60.0
NORMAL_P90 = 1.2815515655446004
FORGET = 0.998
"""Weight that a window of the regression keeps a minute: half is gone after some six hours."""


@dataclass(frozen=True, slots=True)
class Line:
    """Least squares of busy fraction on load a worker, from running sums."""

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def seen(self, x: float, y: float) -> Line:
        """With one more window; the old ones fade."""
        return Line(
            FORGET * self.weight + 1,
            FORGET * self.x + x,
            FORGET * self.y + y,
            FORGET * self.xx + x * x,
            FORGET * self.xy + x * y,
        )

    def fitted(self, capacity: Capacity) -> tuple[float, float]:
        """(slope, intercept); through the origin at the known speed until windows differ enough."""
        spread = self.xx - self.x * self.x / self.weight if self.weight > 0 else 0.0
        if self.weight < 10 or spread <= 1e-4 * self.xx:
            return 1.0 / capacity.rate_per_worker, 0.0
        slope = (self.xy - self.x * self.y / self.weight) / spread
        if slope <= 0:
            return 1.0 / capacity.rate_per_worker, 0.0
        return slope, (self.y - slope * self.x) / self.weight


@dataclass(frozen=True, slots=True)
class MaduMemory:
    """The regression, and a wish to shrink."""

    last_s: float | None = None
    line: Line = field(default_factory=Line)
    settling: Settling = field(default_factory=Settling)


def madu(
    utilisation: float = 0.8, k: float = 1.0, look_ahead_s: float = 600.0, settle_s: float = 300.0
) -> Rule[MaduMemory]:
    """n = min n: a·w/n + b <= `utilisation`, w = the largest of mean + `k` deviations ahead."""

    def size(seen: Situation, memory: MaduMemory) -> tuple[Sizing, MaduMemory]:
        if not is_due(memory.last_s, seen.now_s, PERIOD_S):
            return Sizing(seen.requested, Reason.STEADY), memory
        line = memory.line
        if seen.busy is not None and seen.ready > 0:
            line = line.seen(seen.trained_per_s / seen.ready, seen.busy)
        load = seen.rate_per_s
        if seen.forecast is not None:
            load = expected_load(seen.forecast, k=k, until_s=seen.now_s + seen.lead_time_s + look_ahead_s)
        slope, intercept = line.fitted(seen.capacity)
        wanted = math.ceil(slope * load / max(utilisation - intercept, 0.05) - 1e-9)
        wanted = min(max(wanted, seen.limits.workers_min), seen.limits.workers_max)
        workers, settling = settle(
            wanted, seen.requested, memory.settling, now_s=seen.now_s, settle_s=settle_s
        )
        numbers = {"load_per_s": load, "slope": slope, "intercept": intercept, "wanted": float(wanted)}
        sizing = Sizing(workers, _reason(wanted, workers, seen.requested), numbers)
        return sizing, MaduMemory(seen.now_s, line, settling)

    return Rule("madu", MaduMemory, size, period_s=PERIOD_S, foresees=True)


def expected_load(forecast: Forecast, *, k: float, until_s: float) -> float:
    """The highest mean + k deviations up to `until_s`, the deviation read from the 90 % quantile.

    >>> import numpy as np
    >>> paths = np.array([[10.0, 10.0], [12.0, 13.0]])
    >>> ahead = Forecast(issued_at_s=0.0, step_s=60.0, paths=paths, model="doc", levels=(0.5, 0.9))
    >>> expected_load(ahead, k=NORMAL_P90, until_s=60.0), expected_load(ahead, k=0.0, until_s=60.0)
    (12.0, 10.0)
    """
    steps = max(1, math.ceil((until_s - forecast.issued_at_s) / forecast.step_s))
    mean, high = forecast.path(0.5)[:steps], forecast.path(0.9)[:steps]
    return float((mean + k * (high - mean) / NORMAL_P90).max())


def _reason(wanted: int, workers: int, current: int) -> Reason:
    if workers > current:
        return Reason.FORECAST_RISE
    if workers < current:
        return Reason.FORECAST_FALL
    return Reason.SETTLING if wanted < current else Reason.STEADY
