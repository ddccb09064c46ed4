"""`penstock`: size the pool for the traffic that will be there once the workers are."""

from __future__ import annotations

from dataclasses import dataclass, field

from estimator.reason import Reason
from estimator.rules.demand import demand_seen_per_s
from estimator.rules.rule import Rule
from estimator.rules.settle import Settling, settle
from estimator.situation import Situation, Sizing


@dataclass(frozen=True, slots=True)
class PenstockMemory:
    """What the rule remembers between ticks."""

    settling: Settling = field(default_factory=Settling)


def penstock(
    utilisation: float = 0.85,
    catch_up_s: float = 60.0,
    settle_s: float = 120.0,
    level: float = 0.95,
    look_ahead_s: float = 300.0,
) -> Rule[PenstockMemory]:
    """The larger of what is seen and what is coming.

    Coming: the forecast's upper quantile at its highest from now until a worker
    asked for now would be ready, and `look_ahead_s` beyond, so that no worker is
    given back that would be asked for again at once. Seen: the reactive demand,
    below which no forecast can push.
    """

    def size(seen: Situation, memory: PenstockMemory) -> tuple[Sizing, PenstockMemory]:
        seen_now = demand_seen_per_s(seen, utilisation=utilisation, catch_up_s=catch_up_s)
        coming = 0.0
        if seen.forecast is not None:
            until_s = seen.now_s + seen.lead_time_s + look_ahead_s
            coming = seen.forecast.peak(level, from_s=seen.now_s, until_s=until_s) / utilisation
        demand = max(seen_now, coming)
        wanted = seen.capacity.workers_for(demand, workers_max=seen.limits.workers_max)
        workers, settling = settle(
            wanted, seen.requested, memory.settling, now_s=seen.now_s, settle_s=settle_s
        )
        numbers = {
            "demand_per_s": demand,
            "demand_seen_per_s": seen_now,
            "demand_coming_per_s": coming,
            "wanted": float(wanted),
        }
        reason = _reason(seen, wanted, workers, ahead=coming >= seen_now)
        return Sizing(workers, reason, numbers), PenstockMemory(settling)

    def _reason(seen: Situation, wanted: int, workers: int, *, ahead: bool) -> Reason:
        if workers > seen.requested:
            if ahead:
                return Reason.FORECAST_RISE
            return (
                Reason.CATCH_UP
                if seen.lag > seen.rate_per_s * seen.slo.fresh_within_s / 2
                else (Reason.TRAFFIC_RISE)
            )
        if workers < seen.requested:
            return Reason.TRAFFIC_FALL if seen.forecast is None else Reason.FORECAST_FALL
        return Reason.SETTLING if wanted < workers else Reason.STEADY

    return Rule("penstock", PenstockMemory, size, foresees=True)
