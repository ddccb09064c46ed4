"""`reactive`: size the pool from what is seen now. The fallback, and the floor of every forecast."""

from __future__ import annotations

from dataclasses import dataclass, field

from estimator.reason import Reason
from estimator.rules.demand import demand_seen_per_s
from estimator.rules.rule import Rule
from estimator.rules.settle import Settling, settle
from estimator.situation import Situation, Sizing


@dataclass(frozen=True, slots=True)
class ReactiveMemory:
    """What the rule remembers between ticks."""

    settling: Settling = field(default_factory=Settling)


def reactive(
    utilisation: float = 0.8, catch_up_s: float = 60.0, settle_s: float = 300.0
) -> Rule[ReactiveMemory]:
    """n = min n: C(n) >= rate/u + lag/T + pause·rate/T, shrinking only after `settle_s`."""

    def size(seen: Situation, memory: ReactiveMemory) -> tuple[Sizing, ReactiveMemory]:
        demand = demand_seen_per_s(seen, utilisation=utilisation, catch_up_s=catch_up_s)
        wanted = seen.capacity.workers_for(demand, workers_max=seen.limits.workers_max)
        workers, settling = settle(
            wanted, seen.requested, memory.settling, now_s=seen.now_s, settle_s=settle_s
        )
        numbers = {"demand_per_s": demand, "wanted": float(wanted)}
        return Sizing(workers, _reason(seen, wanted, workers), numbers), ReactiveMemory(settling)

    def _reason(seen: Situation, wanted: int, workers: int) -> Reason:
        if workers > seen.requested:
            for_traffic = seen.capacity.workers_for(
                seen.rate_per_s / utilisation, workers_max=seen.limits.workers_max
            )
            return Reason.TRAFFIC_RISE if for_traffic > seen.requested else Reason.CATCH_UP
        if workers < seen.requested:
            return Reason.TRAFFIC_FALL
        return Reason.SETTLING if wanted < workers else Reason.STEADY

    return Rule("reactive", ReactiveMemory, size)
