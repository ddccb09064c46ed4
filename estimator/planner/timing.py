"""How far the planner looks and in which steps: all from lead time, SLO and the history's own step."""

from __future__ import annotations

import math
from dataclasses import dataclass

STEPS_MAX = 60
"""Steps of one rollout."""
AHEAD_MAX = 60
"""Bins forecast: with a lead time of hours on bins of a minute the last bin stands for the rest."""
PAUSES = 10.0
"""A resize that stops training costs its pause, and nine times as long again until a pool that is nine tenths
full has worked off what gathered."""
CHARGED = 2.5
"""A worker is charged with this many times the seconds that are a plan's own, at most with the horizon."""
STARTED = 1.5
"""A start counts for this many times the same in the cost of a resize, at most for the lead time."""
FURTHER = 4.0
"""So many horizons more are looked at, roughly, before a worker is given back."""
GUARD = 4.0
"""For how long a sudden dip is not believed, in the same units."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The planner's clockwork.

    >>> Timing(lead_time_s=180.0, slo_s=60.0, bin_s=60.0).step_s
    30.0
    >>> Timing(lead_time_s=5.0, slo_s=10.0, bin_s=2.0).horizon_s
    17.0
    """

    lead_time_s: float
    slo_s: float
    bin_s: float
    pause_s: float = 0.0

    @property
    def horizon_s(self) -> float:
        """How far a candidate is rolled: until one asked for a bin later could have kept the promise.

        Looking further charges a worker for lateness that a later decision can still avoid.
        """
        return self.lead_time_s + self.own_s

    @property
    def own_s(self) -> float:
        """The end of the horizon, which this plan decides: the next one's workers come a bin later."""
        return self.slo_s + self.bin_s + PAUSES * self.pause_s

    @property
    def charged_s(self) -> float:
        """GPU time that a worker of a candidate is charged with.

        Lateness that a worker asked for now can avoid is seen over `own_s` alone, however long it takes to
        start. Charged for half an hour against two minutes of lateness, none would ever be worth asking for.

        >>> Timing(lead_time_s=1800.0, slo_s=60.0, bin_s=60.0).charged_s
        300.0
        """
        return min(self.horizon_s, CHARGED * self.own_s)

    @property
    def start_s(self) -> float:
        """What a start counts for in the cost of a resize, for the same reason."""
        return min(self.lead_time_s, STARTED * self.own_s)

    @property
    def step_s(self) -> float:
        """Step of the rollout: fine enough to see the SLO, the lead time and the bins."""
        fine = min(self.slo_s / 2, self.lead_time_s / 4, self.bin_s)
        return max(fine, self.horizon_s / STEPS_MAX)

    @property
    def steps(self) -> int:
        """Steps of the rollout."""
        return max(1, math.ceil(self.horizon_s / self.step_s - 1e-9))

    @property
    def ahead(self) -> int:
        """Bins to forecast."""
        return min(max(math.ceil(self.horizon_s / self.bin_s) + 1, self.lead + 1), AHEAD_MAX)

    @property
    def further(self) -> int:
        """Bins after those forecast in which a worker given back may be missed."""
        return math.ceil(FURTHER * self.horizon_s / self.bin_s)

    @property
    def lead(self) -> int:
        """The lead time in bins, as far as there is a forecast."""
        return min(max(1, math.ceil(self.lead_time_s / self.bin_s)), AHEAD_MAX - 1)

    @property
    def patience(self) -> int:
        """Bins after the lead time that a backlog may last before it is late, twice."""
        return math.ceil(2 * self.slo_s / self.bin_s)

    @property
    def guard(self) -> int:
        """Bins for which a sudden dip is not believed."""
        return min(max(2, round(GUARD * (self.lead_time_s + self.slo_s) / self.bin_s)), 120)
