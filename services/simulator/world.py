"""A seeded world: arrivals, partitions, and workers that start, train, straggle, crash and leave."""

from __future__ import annotations

import numpy as np

from services.simulator import layout as at
from services.simulator.arrivals import Arrivals
from services.simulator.families import true_curve
from services.simulator.kernel import advance
from services.simulator.membership import NEVER, deal, recount, regroup, start
from services.simulator.plant import Handover, Plant, Startup
from services.simulator.trace import Floats

DRAWS = 8192
"""Workers whose fate is drawn ahead; after that many the same fates come again."""
DRAIN_MAX_S = 60 * 86_400
DAY_S = 86_400

_HANDOVERS = {
    Handover.COOPERATIVE: at.COOPERATIVE,
    Handover.EAGER: at.EAGER,
    Handover.RESTART: at.SHARED,
}


class World:
    """The truth. Policies see it only through the ports around it.

    Second 0 is the first of `arrivals`; scoring starts at `scored_from_s`. The same seed
    gives the same world: a worker's start-up, speed and life follow from the order in
    which workers are asked for.
    """

    def __init__(self, plant: Plant, arrivals: Arrivals, *, seed: int, scored_from_s: int = 0) -> None:
        self.plant = plant
        self.arrivals = arrivals
        self.end_s = len(arrivals.per_second)
        self.requested = 0
        self.asked: list[tuple[int, int]] = []
        """(second, workers) of every change asked for, standbys included."""
        self.stood_by: list[tuple[int, int]] = []
        """(second, standbys) of every change of their number."""
        self.arrived = np.concatenate([[0.0], np.cumsum(arrivals.per_second)])
        slots = 3 * plant.most_workers + 16
        self.curve = true_curve(plant, slots)
        self.workers = np.zeros((slots, at.WORKER_COLUMNS))
        self.parts = _partitions(plant)
        self.count = np.zeros(at.COUNTERS)
        self.count[at.NEXT_EVENT] = NEVER
        self.count[at.SCORED_FROM] = scored_from_s
        self.const = _constants(plant)
        self.minutes = np.zeros((self.end_s // 60 + 1, at.MINUTE_COLUMNS))
        self.delays = np.zeros(at.DELAY_BINS)
        self._draws = _fates(plant, seed)
        self._standbys = False
        """Whether anybody was told to stand by."""
        self._called_off: list[float] = []
        """When starts that were called off would have been ready."""

    @property
    def now_s(self) -> int:
        """Seconds since the world began."""
        return int(self.count[at.NOW])

    @property
    def lag(self) -> float:
        """Samples that arrived and are not trained."""
        return float(self.count[at.LAG])

    def populate(self, workers: int) -> None:
        """Begin with this many ready workers, as if they had always been there."""
        for slot in range(workers):
            start(self.workers[slot], self.count, self._draws)
            self.workers[slot, at.READY_AT] = self.count[at.NOW]
            self.workers[slot, at.PHASE] = at.READY
        self.requested = workers
        recount(self.workers, self.count)
        if self.plant.shuffle.is_group:
            deal(self.workers, self.parts, 0.0)
        self.count[at.VERSION] += 1

    def ask(self, workers: int, remove: tuple[int, ...] = ()) -> None:
        """Ask for a size. `remove` numbers the workers to go first when it is smaller.

        Starting workers are called off at once; ready ones hold their GPU while they drain.
        """
        if workers == self.requested:
            return
        change = workers - self.requested
        self.requested = workers
        self.asked.append((self.now_s, workers))
        if change > 0:
            self._add(change)
        else:
            self._dismiss(-change, remove)

    def let_train(self, active: tuple[int, ...] | None) -> None:
        """Only the workers of these numbers train; all do when None. The others stand by."""
        if active is None and not self._standbys:
            return
        rows = self.workers
        waits = np.zeros(len(rows)) if active is None else ~np.isin(rows[:, at.NUMBER], active)
        here = np.isin(rows[:, at.PHASE], (at.STARTING, at.READY, at.STANDBY))
        rows[:, at.WAITS] = np.where(here, waits, 0.0)
        train = (rows[:, at.PHASE] == at.STANDBY) & (rows[:, at.WAITS] == 0)
        wait = (rows[:, at.PHASE] == at.READY) & (rows[:, at.WAITS] > 0)
        rows[train, at.PHASE], rows[wait, at.PHASE] = at.READY, at.STANDBY
        self._standbys = active is not None
        if train.any() or wait.any():
            regroup(rows, self.parts, self.count, self.const)

    def advance(self, until_s: int) -> None:
        """Let time pass up to second `until_s`."""
        advance(until_s, *self.arrays())

    def arrays(self) -> tuple[Floats, ...]:
        """What the compiled loop works on, in its order."""
        return (
            self.arrived,
            self.curve,
            self._draws,
            self.workers,
            self.parts,
            self.count,
            self.const,
            self.minutes,
            self.delays,
        )

    def drain(self) -> None:
        """After the last arrival: hold the pool and train what is left, charged like the rest.

        A pool of nobody gets one worker: a sample must not escape its cost.
        """
        if self.lag > 0 and self.requested == 0:
            self.ask(1)
        deadline = self.now_s + DRAIN_MAX_S
        while self.lag > 0 and self.now_s < deadline:
            self.advance(self.now_s + 10)

    def _add(self, workers: int) -> None:
        free = np.flatnonzero(self.workers[:, at.PHASE] == at.FREE)
        self._called_off = sorted(ready_at for ready_at in self._called_off if ready_at > self.now_s)
        for slot in free[:workers]:
            start(self.workers[slot], self.count, self._draws)
            if self._called_off:
                # Calling off and asking again must not shorten a wait that was long.
                self.workers[slot, at.READY_AT] = max(self.workers[slot, at.READY_AT], self._called_off.pop())
        self.count[at.VERSION] += 1
        recount(self.workers, self.count)

    def _dismiss(self, workers: int, remove: tuple[int, ...]) -> None:
        rows = self.workers
        here = np.flatnonzero(np.isin(rows[:, at.PHASE], (at.STARTING, at.READY, at.STANDBY)))
        wanted = np.isin(rows[here, at.NUMBER], remove)
        # Named ones first, then who does not train yet, then the youngest.
        order = np.lexsort((-rows[here, at.NUMBER], rows[here, at.PHASE] == at.READY, ~wanted))
        left_training = False
        for slot in here[order][:workers]:
            if rows[slot, at.PHASE] == at.STARTING:
                self._called_off.append(float(rows[slot, at.READY_AT]))
                rows[slot, at.PHASE] = at.FREE
            else:
                left_training = True
                rows[slot, at.PHASE] = at.DRAINING if self.plant.drain_s > 0 else at.FREE
                rows[slot, at.GONE_AT] = self.count[at.NOW] + self.plant.drain_s
        if left_training:
            regroup(rows, self.parts, self.count, self.const)
        self.count[at.VERSION] += 1
        recount(rows, self.count)


def _partitions(plant: Plant) -> Floats:
    """Partitions by weight; one alone where nothing can make one wait for another."""
    alone = plant.shuffle is Handover.RESTART or (plant.shuffle is Handover.LEASES and plant.pause_s == 0)
    weights = np.arange(1, plant.partitions + 1, dtype=np.float64) ** -plant.skew
    parts = np.zeros((1 if alone else plant.partitions, at.PARTITION_COLUMNS))
    parts[:, at.WEIGHT] = 1.0 if alone else weights / weights.sum()
    parts[:, at.OWNER] = -1
    return parts


def _constants(plant: Plant) -> Floats:
    const = np.zeros(at.CONSTANTS)
    leased = at.LEASED if plant.pause_s > 0 else at.SHARED
    const[at.HANDOVER] = _HANDOVERS.get(plant.shuffle, leased)
    const[at.SLO] = plant.slo_s
    const[at.PAUSE] = plant.pause_s
    const[at.SESSION_TIMEOUT] = plant.session_timeout_s
    const[at.BY_LOAD] = 1.0 if plant.slowdown == "load" else 0.0
    return const


def _fates(plant: Plant, seed: int) -> Floats:
    """Start-up time, life and speed of each worker to come."""
    rng = np.random.default_rng([seed, 2])
    fates = np.empty((DRAWS, 3))
    if isinstance(plant.startup_s, Startup):
        fates[:, 0] = plant.startup_s.median * np.exp(plant.startup_s.sigma * rng.standard_normal(DRAWS))
    else:
        fates[:, 0] = plant.startup_s
    per_s = plant.crashes_per_worker_day / DAY_S
    fates[:, 1] = rng.exponential(1.0, DRAWS) / per_s if per_s > 0 else NEVER
    fates[:, 2] = np.where(rng.random(DRAWS) < plant.straggler_share, plant.straggler_speed, 1.0)
    return fates
