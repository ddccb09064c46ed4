"""One policy on one fleet, from the world's first second to the last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forecasting.history import TrafficHistory
from services.simulator.fleet import layout as at
from services.simulator.fleet.file import FleetFile
from services.simulator.fleet.kernel import Counts
from services.simulator.fleet.knowledge import KnownRates
from services.simulator.fleet.seen import FleetDecision, FleetPolicy, FleetSeen
from services.simulator.fleet.traffic import FleetTraffic, workers_needed
from services.simulator.fleet.world import FleetWorld, Sizes
from services.simulator.trace import Floats

START_UTILISATION = 0.8
BUSY_NOISE = 0.02
HISTORY_DAYS_MAX = 28


@dataclass(frozen=True, slots=True, eq=False)
class FleetRun:
    """What happened in the scored part; see layout.py for the columns of `sums`."""

    sums: Floats
    held_minutes: Floats
    """GPU-seconds held by minute and type; the last row is the drain."""
    resizes: np.ndarray[tuple[int], np.dtype[np.int64]]
    contended_share: float
    """Share of the decisions in which more was wanted than there was."""
    free_least: int
    """GPUs that were free at the fullest tick: never below 0."""
    sizes: Floats
    """Workers requested by minute and job."""


def simulate_fleet(policy: FleetPolicy, fleet: FleetFile, traffic: FleetTraffic, *, seed: int) -> FleetRun:
    """Play the fleet under one policy, then drain what is left."""
    world = FleetWorld(fleet, traffic, seed=seed)
    world.populate(first_sizes(fleet, traffic))
    eyes = _Eyes(world, seed=seed, tick_s=policy.period_s)
    contended: list[bool] = []
    sizes = np.zeros((traffic.simulated.shape[1], len(fleet.jobs)))
    least = int(world.free().min())
    for second in range(policy.period_s, world.end_s, policy.period_s):
        world.advance(second)
        decision = policy.decide(eyes.look())
        _check(decision, world)
        world.ask(decision.workers, decision.wanted)
        least = min(least, int((world.capacity - world.census()[at.STARTING :].sum(axis=(0, 1))).min()))
        sizes[second // 60 :] = world.requested.sum(axis=1)
        if world.is_scored:
            contended.append(decision.contended)
    world.advance(world.end_s)
    world.drain()
    first = traffic.scored - traffic.first
    share = float(np.mean(contended)) if contended else 0.0
    return FleetRun(world.sums, world.held_minutes[first:], world.resizes, share, least, sizes[first:])


def first_sizes(fleet: FleetFile, traffic: FleetTraffic) -> Sizes:
    """At 80 % of its capacity for the first minute, job by job, on the first of its types with room for that;
    where none has it, on the one with the most."""
    free = {kind: about.gpus for kind, about in fleet.gpu_types.items()}
    sizes = np.zeros((len(fleet.jobs), len(fleet.kinds)), dtype=np.int64)
    for place, job in enumerate(fleet.jobs):
        rate = float(traffic.simulated[place, 0]) / START_UTILISATION
        wanted = {
            kind: max(1, int(np.ceil(min(float(workers_needed(job, kind, rate)), job.workers_max))))
            for kind in job.rates
        }
        roomy = [kind for kind in job.rates if free[kind] >= wanted[kind]]
        kind = roomy[0] if roomy else max(job.rates, key=lambda kind: free[kind] * job.rates[kind])
        workers = min(wanted[kind], free[kind])
        sizes[place, fleet.kinds.index(kind)] = workers
        free[kind] -= workers
    return sizes


def _check(decision: FleetDecision, world: FleetWorld) -> None:
    if (decision.workers < 0).any() or (decision.workers[world.rates <= 0] > 0).any():
        raise RuntimeError("a policy asked for workers on a type where the job may not run")


class _Eyes:
    """The world as policies see it: rates since the last tick, and noise where workers speak."""

    def __init__(self, world: FleetWorld, *, seed: int, tick_s: int) -> None:
        self._world, self._tick_s = world, tick_s
        self._known = KnownRates(world.fleet, world.rates, seed=seed)
        self._rng = np.random.default_rng([seed, 7])
        traffic = world.traffic
        start = max(0, traffic.first - HISTORY_DAYS_MAX * 1440)
        self._minutes = traffic.minutes[:, start:]
        self._start_s = traffic.start_s + 60.0 * start
        self._before = traffic.first - start
        self._last_s = 0
        self._histories: dict[int, TrafficHistory] = {}
        self._bin = -1

    def look(self) -> FleetSeen:
        world, now = self._world, self._world.now_s
        span_s = max(now - self._last_s, 1)
        rate = (world.came(now) - world.came(self._last_s)) / span_s
        trained, busy = world.window()
        census = world.census()
        ready, lag = census[at.READY], world.lag()
        self._known.seen(ready, span_s)
        self._last_s = now
        noise = np.exp(BUSY_NOISE * self._rng.standard_normal(len(busy)))
        begins_s = world.traffic.begins_s
        return FleetSeen(
            fleet=world.fleet,
            now_s=begins_s + now,
            rate_per_s=rate,
            lag=lag,
            lag_s=np.where(lag > 0, world.oldest_s(), 0.0),
            trained_per_s=trained / span_s,
            busy=np.minimum(busy * noise, 1.0),
            ready=ready,
            starting=census[at.STARTING],
            requested=world.requested.copy(),
            starting_since_s=self._starting(begins_s, census),
            free=census[at.FREE].sum(axis=0),
            rates=self._known.rates,
            sure=self._known.sure,
            history=self._history,
        )

    def _starting(self, begins_s: float, census: Counts) -> tuple[tuple[float, ...], ...]:
        """When each worker that does not train yet was asked for; now, for one that has no GPU yet."""
        world = self._world
        since: list[list[float]] = [[] for _ in world.fleet.jobs]
        for row in world.gpus[world.gpus[:, at.PHASE] == at.STARTING]:
            since[int(row[at.JOB])].append(begins_s + float(row[at.SINCE]))
        missing = world.requested.sum(axis=1) - census[at.STARTING : at.DRAINING].sum(axis=(0, 2))
        for job in np.flatnonzero(missing > 0):
            since[int(job)] += [begins_s + world.now_s] * int(missing[job])
        return tuple(tuple(sorted(asked)) for asked in since)

    def _history(self, job: int) -> TrafficHistory:
        """Whole minutes before now, and no more."""
        last = self._before + self._world.now_s // 60
        if last != self._bin:
            self._bin, self._histories = last, {}
        if job not in self._histories:
            rates = self._minutes[job, :last]
            self._histories[job] = TrafficHistory(start_s=self._start_s, step_s=60.0, rates=rates)
        return self._histories[job]
