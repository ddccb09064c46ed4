"""`sia`: one configuration a job by an integer programme, every minute (Jayaram Subramanya et al., SOSP'23).

Minimise  Σ_j w_j Σ_c x_jc · (r_jc · G_jc)^p + 1.1 · Σ_j w_j (1 - Σ_c x_jc) + 0.02 · changed jobs  with
p = -0.5, x binary, at most one configuration c = (type, n) a job and GPUs of a type within what there is. G
is goodput over the job's least one; n is 1, 2, 4, ... up to a node and whole nodes after that, at most twice
what the job ever had. A configuration that is not the present one is worth so much of it:
r = (age - restarts · S) / (age + S), S being what a restart costs. The charge for a change is that of its
authors' code.

Ours, since a stream is no batch job: goodput is what can be used, min(C(n), rate/0.85 + backlog/60 s), and of
configurations that are worth the same the one with fewer GPUs is taken. The programme is solved by the
fleet's own solver, relaxed first, to 2 % of its optimum.
"""

from __future__ import annotations

import numpy as np

from estimator.fleet import NOTHING, Configuration, ShareRules
from estimator.fleet.configurations import Choice
from estimator.fleet.programme import solved
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
CHANGED = 0.02
RULES = ShareRules(gap=0.02, time_limit_s=60.0)


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
        choices = [self._choices(job, seen, float(demand[job])) for job in range(len(demand))]
        there = {kind: about.gpus for kind, about in seen.fleet.gpu_types.items()}
        picked = solved(choices, there, RULES).picked
        sizes = np.zeros(seen.requested.shape, dtype=np.int64)
        for job, choice in enumerate(picked):
            at = choices[job][choice].at
            if at:
                sizes[job, seen.fleet.kinds.index(at.gpu_type)] = at.workers
        self._restarts += (sizes != seen.requested).any(axis=1)
        wanted = _useful(seen, demand, self._counts)
        return FleetDecision(sizes, wanted, bool((_speeds(seen, sizes) < demand * 0.999).any()))

    def _choices(self, job: int, seen: FleetSeen, demand: float) -> list[Choice]:
        """Every configuration of a job and what it is worth, nothing at all among them."""
        age_s = seen.now_s - (self._began_s or 0.0)
        kept = max(age_s - self._restarts[job] * self._restart_s, 0.0) / (age_s + self._restart_s)
        most = min(max(2 * int(self._most[job]), 1), seen.fleet.jobs[job].workers_max)
        goodputs: dict[Configuration, float] = {}
        for kind in np.flatnonzero(seen.rates[job] > 0):
            counts = self._counts[kind][self._counts[kind] <= most]
            useful = np.minimum(seen.curve(job, int(kind), int(counts[-1]))[counts], max(demand, 1e-9))
            name = seen.fleet.kinds[kind]
            goodputs |= {Configuration(name, int(n)): float(g) for n, g in zip(counts, useful, strict=True)}
        here = seen.fleet.kinds[int(seen.requested[job].argmax())]
        now = Configuration(here, int(seen.requested[job].sum()))
        return choices_of(goodputs, now, kept=max(float(kept), 1e-3), weight=float(self._weights[job]))


def choices_of(
    goodputs: dict[Configuration, float], now: Configuration, *, kept: float, weight: float
) -> list[Choice]:
    """What each configuration is worth: the objective turned round, against 0 for nothing at all."""
    least = max(min(goodputs.values()), 1e-12)
    choices = [Choice(NOTHING, 0.0, 0.0)]
    for at, goodput in goodputs.items():
        worth = goodput / least * (1.0 if at == now else kept)
        value = weight * (UNALLOCATED - worth**POWER) - GPU_WORTH * at.workers
        choices.append(Choice(at, float(at.workers), value - (0.0 if at == now else CHANGED)))
    return choices


def configurations(kind: GpuType) -> Counts:
    """Worker counts on one type: powers of two within a node, then whole nodes.

    >>> configurations(GpuType(gpus=32, node_gpus=8)).tolist()
    [1, 2, 4, 8, 16, 24, 32]
    """
    within = [1 << power for power in range(kind.node_gpus.bit_length()) if 1 << power <= kind.node_gpus]
    nodes = [many * kind.node_gpus for many in range(2, kind.gpus // kind.node_gpus + 1)]
    return np.array([n for n in (*within, *nodes) if n <= kind.gpus])


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
