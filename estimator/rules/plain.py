"""Sizing without a model of the traffic: the larger of what is seen and what a forecast says is coming."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.reason import Reason
from estimator.rules.demand import demand_seen_per_s
from estimator.rules.settle import Settling, settle
from estimator.situation import Situation, Sizing

LEVEL = 0.9
"""Of the forecast. At 0.95 the first hour took a tenth more GPU time, and nobody was late at either."""


@dataclass(frozen=True, slots=True)
class Plain:
    """The fallback, and the first hour of a job.

    Coming: the forecast's upper quantile at its highest from now until a worker asked for
    now would be ready, and `look_ahead_s` beyond, so that no worker is given back that would
    be asked for again at once; that is margin enough, and is not divided by the utilisation besides.
    Seen: the reactive demand, below which no forecast can push.
    """

    utilisation: float
    catch_up_s: float
    settle_s: float
    look_ahead_s: float

    def size(self, seen: Situation, held: Settling) -> tuple[Sizing, Settling]:
        """The size, and the wish to shrink to remember."""
        seen_now = demand_seen_per_s(seen, utilisation=self.utilisation, catch_up_s=self.catch_up_s)
        coming = 0.0
        if seen.forecast is not None:
            until_s = seen.now_s + seen.lead_time_s + self.look_ahead_s
            coming = seen.forecast.peak(LEVEL, from_s=seen.now_s, until_s=until_s)
        demand = max(seen_now, coming)
        wanted = seen.capacity.workers_for(demand, workers_max=seen.limits.workers_max)
        workers, settling = settle(wanted, seen.requested, held, now_s=seen.now_s, settle_s=self.settle_s)
        numbers = {
            "demand_per_s": demand,
            "demand_seen_per_s": seen_now,
            "demand_coming_per_s": coming,
            "wanted": float(wanted),
        }
        reason = _reason(seen, wanted, workers, ahead=coming >= seen_now)
        return Sizing(workers, reason, numbers), settling


def _reason(seen: Situation, wanted: int, workers: int, *, ahead: bool) -> Reason:
    if workers > seen.requested:
        if ahead:
            return Reason.FORECAST_RISE
        behind = seen.lag > seen.rate_per_s * seen.slo.fresh_within_s / 2
        return Reason.CATCH_UP if behind else Reason.TRAFFIC_RISE
    if workers < seen.requested:
        return Reason.TRAFFIC_FALL if seen.forecast is None else Reason.FORECAST_FALL
    return Reason.SETTLING if wanted < workers else Reason.STEADY
