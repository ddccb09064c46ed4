"""`sia`: one configuration a job by an integer programme, every minute (Jayaram Subramanya et al., SOSP'23).

Minimise  Σ_j w_j Σ_c x_jc · (r_jc · G_jc)^p + 1.1 · Σ_j w_j (1 - Σ_c x_jc)  with p = -0.5, x binary, at most
one configuration c = (type, n) a job and GPUs of a type within what there is. G is goodput over the job's
least one; n is 1, 2, 4, ... up to a node and whole nodes after that, at most twice what the job ever had. A
configuration that is not the present one is worth r = (age - restarts · S) / (age + S) of it, S being what a
restart costs.

Ours, since a stream is no batch job: goodput is what can be used, min(C(n), rate/0.85 + backlog/60 s), and of
configurations that are worth the same the one with fewer GPUs is taken.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from services.simulator.fleet.file import FleetFile, GpuType
from services.simulator.fleet.kernel import Counts
from services.simulator.fleet.seen import FleetDecision, FleetSeen
from services.simulator.fleet.traffic import FleetTraffic
from services.simulator.fleet.world import Sizes
from services.simulator.trace import Floats

ROUND_S = 60
POWER = -0.5
UNALLOCATED = 1.1
UTILISATION, CATCH_UP_S = 0.85, 60.0
GPU_WORTH = 1e-5
"""Breaks ties towards fewer GPUs."""
GAP, TIME_LIMIT_S = 0.005, 5.0


class Sia:
    """The programme, and what it must remember of each job."""

    period_s = ROUND_S

    def __init__(self, fleet: FleetFile, traffic: FleetTraffic) -> None:
        del traffic
        self._weights = np.array([job.weight for job in fleet.jobs])
        self._most = np.zeros(len(fleet.jobs), dtype=np.int64)
        self._restarts = np.zeros(len(fleet.jobs))
        self._began_s: float | None = None
        self._restart_s = fleet.pause_s + fleet.startup_late_s
        self._counts = [configurations(kind) for kind in fleet.gpu_types.values()]

    def decide(self, seen: FleetSeen) -> FleetDecision:
        if self._began_s is None:
            self._began_s = seen.now_s - 86_400.0 * max(seen.fleet.warmup_days, 1.0)  # no job is new here
        self._most = np.maximum(self._most, seen.requested.sum(axis=1))
        demand = seen.rate_per_s / UTILISATION + seen.lag / CATCH_UP_S
        table = self._table(seen, demand)
        chosen = solve(table, self._weights, seen.capacity)
        sizes = np.zeros(seen.requested.shape, dtype=np.int64)
        for job, kind, workers in table.configurations[chosen]:
            sizes[job, kind] = workers
        self._restarts += (sizes != seen.requested).any(axis=1)
        wanted = _useful(seen, demand, self._counts)
        return FleetDecision(sizes, wanted, bool((_speeds(seen, sizes) < demand * 0.999).any()))

    def _table(self, seen: FleetSeen, demand: Floats) -> Table:
        age_s = seen.now_s - (self._began_s or 0.0)
        kept = np.maximum(age_s - self._restarts * self._restart_s, 0.0) / (age_s + self._restart_s)
        rows: list[tuple[int, int, int]] = []
        worths: list[float] = []
        for job in range(len(demand)):
            most = min(max(2 * int(self._most[job]), 1), seen.fleet.jobs[job].workers_max)
            own: list[tuple[int, int, int]] = []
            goodputs: list[float] = []
            for kind in np.flatnonzero(seen.rates[job] > 0):
                counts = self._counts[kind][self._counts[kind] <= most]
                curve = seen.curve(job, int(kind), int(counts[-1]))
                useful = np.minimum(curve[counts], max(demand[job], 1e-9))
                own += [(job, int(kind), int(n)) for n in counts]
                goodputs += useful.tolist()
            least = max(min(goodputs), 1e-12)
            for place, goodput in zip(own, goodputs, strict=True):
                same = seen.requested[job, place[1]] == place[2] == seen.requested[job].sum()
                worths.append(goodput / least * (1.0 if same else max(float(kept[job]), 1e-3)))
            rows += own
        return Table(np.array(rows), np.array(worths))


class Table:
    """Every configuration that is considered: rows of (job, type, workers), and what each is worth."""

    def __init__(self, configurations: Counts, worths: Floats) -> None:
        self.configurations, self.worths = configurations, worths


def configurations(kind: GpuType) -> Counts:
    """Worker counts on one type: powers of two within a node, then whole nodes.

    >>> configurations(GpuType(gpus=32, node_gpus=8)).tolist()
    [1, 2, 4, 8, 16, 24, 32]
    """
    within = [1 << power for power in range(kind.node_gpus.bit_length()) if 1 << power <= kind.node_gpus]
    nodes = [many * kind.node_gpus for many in range(2, kind.gpus // kind.node_gpus + 1)]
    return np.array([n for n in (*within, *nodes) if n <= kind.gpus])


def solve(table: Table, weights: Floats, capacity: Counts) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which configurations are chosen."""
    jobs, kinds, workers = table.configurations.T
    many, job_count = len(jobs), len(weights)
    cost = weights[jobs] * (table.worths**POWER - UNALLOCATED) + GPU_WORTH * workers
    at = np.arange(many)
    once = coo_array((np.ones(many), (jobs, at)), shape=(job_count, many))
    within = coo_array((workers.astype(np.float64), (kinds, at)), shape=(len(capacity), many))
    found = milp(
        cost,
        integrality=np.ones(many),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(once, ub=1.0),
            LinearConstraint(within, ub=capacity.astype(np.float64)),
        ],
        options={"mip_rel_gap": GAP, "time_limit": TIME_LIMIT_S},
    )
    if found.x is None:
        raise RuntimeError(f"Sia's programme was not solved: {found.message}")
    chosen: np.ndarray[tuple[int], np.dtype[np.bool_]] = found.x > 0.5
    return chosen


def _speeds(seen: FleetSeen, sizes: Sizes) -> Floats:
    kinds = sizes.argmax(axis=1)
    return np.array([seen.curve(job, int(kind), int(sizes[job, kind]))[-1] for job, kind in enumerate(kinds)])


def _useful(seen: FleetSeen, demand: Floats, counts: list[Counts]) -> Sizes:
    """What each job could use on its own type, in Sia's configurations."""
    sizes = np.zeros(seen.requested.shape, dtype=np.int64)
    for place, job in enumerate(seen.fleet.jobs):
        kind = seen.fleet.kinds.index(job.home)
        able = seen.curve(place, kind, int(counts[kind][-1]))[counts[kind]]
        sizes[place, kind] = counts[kind][min(int(np.searchsorted(able, demand[place])), len(able) - 1)]
    return sizes
