"""`penstock`: each job's own planner says what it wishes, and the fleet shares.

Every job has the real rule (`estimator.rules.penstock`) with its own memory and history; what it asks for is
its wish on the type where it is, told in samples/s for the other types. `estimator.fleet.share` decides for
all of them, once a minute: the rule plans once a minute anyway, and a hundred jobs are then six times cheaper
to play than with ticks of ten seconds.

A job that changes its type trains nothing until its new workers are ready. So on another type it counts as
training what it would over the next quarter of an hour, the move included, and a job on the move is left
alone until it is there. A job that is late already asks for what drains its backlog in that time too: alone
it would drain at once, but its samples are late anyway, and others still are not.
"""

from __future__ import annotations

import numpy as np

from estimator.fleet import NOTHING, Budget, Configuration, ShareRules, Standing, Wish, share
from estimator.fleet.moving import fewest, kept_by_move, late_demand, with_move
from estimator.fleet.plan import Method
from estimator.rules.penstock import PenstockMemory, penstock
from estimator.situation import Limits, Situation, Sizing
from services.simulator.fleet.file import FleetFile
from services.simulator.fleet.kernel import Counts
from services.simulator.fleet.seen import FleetDecision, FleetSeen
from services.simulator.fleet.traffic import FleetTraffic

TICK_S = 60
GAP, SOLVE_S = 0.02, 60.0
"""A live tick gives the programme two seconds and asks for half a per cent. Here it must be quick, and a busy
machine must not change what is decided."""


class PenstockFleet:
    """The planners' memories, and nothing else."""

    period_s = TICK_S

    def __init__(self, fleet: FleetFile, traffic: FleetTraffic, rules: ShareRules | None = None) -> None:
        del traffic
        self._fleet = fleet
        self._rules = [penstock(explains=False) for _ in fleet.jobs]
        self._memory = [PenstockMemory() for _ in fleet.jobs]
        self._sharing = ShareRules(gap=GAP, time_limit_s=SOLVE_S) if rules is None else rules
        self.budget = budget_of(fleet)
        self._standings = standings_of(fleet)
        self._kept = kept_by_move(fleet.startup_late_s, fleet.drain_s)
        self._moving_until_s = np.zeros(len(fleet.jobs))

    def decide(self, seen: FleetSeen) -> FleetDecision:
        wishes = [self._wish(job, seen) for job in range(len(self._memory))]
        plan = share(self.budget, wishes, rules=self._sharing)
        kinds = self._fleet.kinds
        sizes = np.zeros(seen.requested.shape, dtype=np.int64)
        wanted = sizes.copy()
        for job, allotment in enumerate(plan.allotments):
            if allotment.given:
                sizes[job, kinds.index(allotment.given.gpu_type)] = allotment.given.workers
            if allotment.asked:
                wanted[job, kinds.index(allotment.asked.gpu_type)] = allotment.asked.workers
        moved = ((sizes > 0) & (seen.requested == 0)).any(axis=1)
        self._moving_until_s[moved] = seen.now_s + self._fleet.startup_late_s
        return FleetDecision(sizes, wanted, plan.method is not Method.WISHES)

    def _wish(self, job: int, seen: FleetSeen) -> Wish:
        """What the job's planner would take if it were alone, on each of its types."""
        about, kinds = self._fleet.jobs[job], self._fleet.kinds
        place = _where(seen.requested[job], kinds.index(about.home))
        most = min(about.workers_max, int(seen.capacity[place]))
        situation = seen.situation(job, place, Limits(1, most))
        sizing, self._memory[job] = self._rules[job].size(situation, self._memory[job])
        workers, here = min(max(sizing.workers, 1), most), int(seen.requested[job, place])
        if situation.lag_s > situation.slo.fresh_within_s:
            enough = late_demand(_coming(sizing, situation), situation.lag)
            workers = min(workers, max(fewest(seen.curve(job, place, most), enough), 1))
        sure = 1.0 if kinds[place] == about.home else float(seen.sure[job, place])
        demand = sure * float(seen.curve(job, place, workers)[-1])
        counts: dict[str, int] = {}
        curves: dict[str, tuple[float, ...]] = {}
        for name in about.rates:
            kind = kinds.index(name)
            curve = seen.curve(job, kind, int(seen.capacity[kind]))
            if name != about.home:  # what stands in for a guarantee must be worth it
                curve *= seen.sure[job, kind]
            counts[name] = workers if kind == place else fewest(curve, demand)
            if here and kind != place:
                promised = about.guaranteed if name == about.home else 0
                curve = with_move(curve, demand, kept=self._kept, guaranteed=promised)
            curves[name] = tuple(curve[: max(counts[name], here, about.guaranteed) + 2].tolist())
        assured = float(seen.curve(job, kinds.index(about.home), about.guaranteed)[-1])
        there = curves[kinds[place]][here] >= min(assured, demand) * (1 - 1e-9)
        return Wish(
            job=self._standings[job],
            workers=counts,
            curves=curves,
            demand_per_s=demand,
            current=Configuration(kinds[place], here) if here else NOTHING,
            pinned=bool(here and there and seen.now_s < self._moving_until_s[job]),
            preferred=kinds[place],
        )


def _coming(sizing: Sizing, situation: Situation) -> float:
    """The rate that is to be carried: the planner's word for its lead time, else what is seen."""
    return max(sizing.numbers.get("rate_at_lead_p95", 0.0), situation.rate_per_s)


def budget_of(fleet: FleetFile) -> Budget:
    """The fleet's GPUs as the sharing sees them."""
    budget = Budget((), {kind: about.price for kind, about in fleet.gpu_types.items()})
    nodes = [
        node
        for kind, about in fleet.gpu_types.items()
        for node in Budget.counted({kind: about.gpus}, node_gpus=about.node_gpus).nodes
    ]
    return Budget(tuple(nodes), budget.prices)


def standings_of(fleet: FleetFile) -> tuple[Standing, ...]:
    """What each job may count on."""
    return tuple(
        Standing(
            job.name, job.tenant, job.weight, job.guaranteed, tuple(job.rates), workers_max=job.workers_max
        )
        for job in fleet.jobs
    )


def _where(requested: Counts, home: int) -> int:
    """The type that a job is on, or its first one while it has nothing."""
    return int(requested.argmax()) if requested.any() else home
