"""A seeded world of many jobs: GPUs of several types that start workers, train, drain and change hands."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from services.simulator.fleet import layout as at
from services.simulator.fleet.file import FleetFile
from services.simulator.fleet.kernel import NEVER, Counts, able, advance, recount
from services.simulator.fleet.traffic import FleetTraffic
from services.simulator.plant import Startup
from services.simulator.trace import Floats

DRAWS = 8192
DRAIN_MAX_S = 7 * 86_400

Sizes = NDArray[np.int64]
"""Workers by job and type."""


class FleetWorld:
    """The truth. A worker starts only on a GPU that is free: whatever a policy asks, the budget holds.

    What was asked for and has no GPU waits, who asked first first. The same seed gives the same world.
    """

    def __init__(self, fleet: FleetFile, traffic: FleetTraffic, *, seed: int) -> None:
        self.fleet, self.traffic = fleet, traffic
        self.rates = _rates(fleet)
        self.contention = np.array([job.contention for job in fleet.jobs])
        simulated = traffic.simulated
        zero = np.zeros((len(fleet.jobs), 1))
        self.arrived = np.concatenate([zero, np.cumsum(60.0 * simulated, axis=1)], axis=1)
        self.end_s = 60 * simulated.shape[1]
        self.gpus = _gpus(fleet)
        self.capacity = np.array([kind.gpus for kind in fleet.gpu_types.values()])
        self.requested: Sizes = np.zeros(self.rates.shape, dtype=np.int64)
        self.jobs = np.zeros((len(fleet.jobs), at.JOB_COLUMNS))
        self.sums = np.zeros((len(fleet.jobs), at.SUM_COLUMNS))
        self.held_minutes = np.zeros((simulated.shape[1] + 1, len(fleet.kinds)))
        self.clock = np.array([0, NEVER, 60 * (traffic.scored - traffic.first)], dtype=np.int64)
        self.const = np.array([fleet.slo_s, fleet.drain_s + fleet.tick_s, fleet.pause_s, self.end_s])
        self.resizes = np.zeros(len(fleet.jobs), dtype=np.int64)
        self._promised = able(_as_gpus(_guarantees(fleet)), self.rates, self.contention, at.READY)
        self._since = np.full(self.rates.shape, NEVER, dtype=np.int64)
        """When what waits for a GPU was asked for."""
        self._startups = _startups(fleet, seed)
        self._started = 0

    @property
    def now_s(self) -> int:
        """Seconds since the world began."""
        return int(self.clock[at.NOW])

    @property
    def is_scored(self) -> bool:
        """Whether what happens now counts."""
        return bool(self.clock[at.NOW] >= self.clock[at.SCORED_FROM])

    def lag(self) -> Floats:
        """Samples of each job that came and are not trained."""
        return np.maximum(self.came(self.now_s) - self.jobs[:, at.DONE], 0.0)

    def came(self, at_s: int) -> Floats:
        """Samples of each job that came before second `at_s` of the world."""
        minute, second = divmod(min(at_s, self.end_s), 60)
        after: Floats = self.arrived[:, min(minute + 1, self.arrived.shape[1] - 1)]
        came: Floats = self.arrived[:, minute] + second / 60 * (after - self.arrived[:, minute])
        return came

    def oldest_s(self) -> Floats:
        """Age of the oldest of them."""
        return np.maximum(self.now_s - self.jobs[:, at.HEAD_S], 0.0)

    def census(self) -> Counts:
        """GPUs by phase, job and type; a free one counts for the job that had it last."""
        jobs, kinds = self.rates.shape
        rows = self.gpus
        key = (rows[:, at.PHASE] * jobs + rows[:, at.JOB]) * kinds + rows[:, at.TYPE]
        return np.bincount(key, minlength=4 * jobs * kinds).reshape(4, jobs, kinds)

    def free(self) -> Counts:
        """GPUs of each type that nobody holds."""
        free: Counts = self.census()[at.FREE].sum(axis=0)
        return free

    def populate(self, workers: Sizes) -> None:
        """Begin with these workers ready, as if they had always been there; no more than there are GPUs."""
        for job, kind in zip(*np.nonzero(workers), strict=True):
            rows = self._rows(at.FREE, None, kind)[: workers[job, kind]]
            self.gpus[rows, at.PHASE], self.gpus[rows, at.JOB] = at.READY, job
            self.requested[job, kind] = len(rows)
        recount(self.gpus, self.rates, self.contention, self.jobs)

    def ask(self, workers: Sizes, wanted: Sizes | None = None) -> None:
        """Ask for these sizes. `wanted` is what each job asked its fleet for, which its guarantee answers to.

        Workers that start are called off at once, the youngest first; ready ones drain and hold their GPU.
        """
        changed = workers != self.requested
        if self.is_scored and self.now_s < self.end_s:
            self.resizes += changed.any(axis=1)
        for job, kind in zip(*np.nonzero(workers < self.requested), strict=True):
            self._dismiss(job, kind, int(workers[job, kind]))
        grown = workers > self.requested
        self._since[grown] = np.minimum(self._since[grown], self.now_s)
        self.requested = workers.copy()
        wishes = able(_as_gpus(workers if wanted is None else wanted), self.rates, self.contention, at.READY)
        self.jobs[:, at.FLOOR] = np.minimum(self._promised, wishes)
        self._start_waiting()

    def advance(self, until_s: int) -> None:
        """Let time pass up to second `until_s`."""
        while self.now_s < until_s:
            advance(
                until_s, self.arrived, self.rates, self.contention, self.gpus, self.jobs, self.sums,
                self.held_minutes, self.clock, self.const,
            )  # fmt: skip
            self._start_waiting()

    def drain(self) -> None:
        """After the last arrival: train what is left with the pools as they stand, charged like the rest.

        Who is done lets its workers go; a pool of nobody gets its guarantee, or one worker: a sample must not
        escape its cost.
        """
        deadline = self.now_s + DRAIN_MAX_S
        while self.now_s < deadline:
            behind = self.lag() > 1e-9 * self.arrived[:, -1]
            if not behind.any():
                return
            sizes = np.where(behind[:, None], self.requested, 0)
            for job in np.flatnonzero(behind & (sizes.sum(axis=1) == 0)):
                sizes[job, self.rates[job].argmax()] = max(self.fleet.jobs[job].guaranteed, 1)
            if (sizes != self.requested).any():
                self.ask(sizes)
            self.advance(self.now_s + 60)

    def window(self) -> tuple[Floats, Floats]:
        """Samples trained since the last call, and how busy that kept each job's ready workers."""
        trained, possible = self.jobs[:, at.WINDOW_TRAINED].copy(), self.jobs[:, at.WINDOW_ABLE].copy()
        self.jobs[:, at.WINDOW_TRAINED : at.WINDOW_ABLE + 1] = 0.0
        return trained, np.where(possible > 0, trained / np.maximum(possible, 1e-12), 0.0)

    def _rows(self, phase: int, job: int | None, kind: int) -> Counts:
        rows = (self.gpus[:, at.PHASE] == phase) & (self.gpus[:, at.TYPE] == kind)
        if job is not None:
            rows &= self.gpus[:, at.JOB] == job
        return np.flatnonzero(rows)

    def _dismiss(self, job: int, kind: int, keep: int) -> None:
        starting, ready = self._rows(at.STARTING, job, kind), self._rows(at.READY, job, kind)
        surplus = max(len(starting) + len(ready) - keep, 0)
        youngest = starting[np.argsort(-self.gpus[starting, at.SINCE], kind="stable")][:surplus]
        self.gpus[youngest, at.PHASE] = at.FREE
        leaving = ready[: surplus - len(youngest)]
        drains = self.fleet.drain_s > 0
        self.gpus[leaving, at.PHASE] = at.DRAINING if drains else at.FREE
        self.gpus[leaving, at.UNTIL] = self.now_s + round(self.fleet.drain_s)
        if len(leaving):
            self.clock[at.NEXT_EVENT] = min(self.clock[at.NEXT_EVENT], self.gpus[leaving[0], at.UNTIL])
            self.jobs[job, at.STOPPED_UNTIL] = self.now_s + self.fleet.pause_s
            recount(self.gpus, self.rates, self.contention, self.jobs)

    def _start_waiting(self) -> None:
        """Workers that were asked for take the GPUs that are free."""
        census = self.census()
        missing = self.requested - census[at.STARTING] - census[at.READY]
        self._since[missing <= 0] = NEVER
        for kind in np.flatnonzero((missing > 0).any(axis=0) & (census[at.FREE].sum(axis=0) > 0)):
            idle = list(self._rows(at.FREE, None, int(kind)))
            waiting = np.flatnonzero(missing[:, kind] > 0)
            for job in waiting[np.argsort(self._since[waiting, kind], kind="stable")]:
                for row in idle[: missing[job, kind]]:
                    self._start(row, job)
                idle = idle[missing[job, kind] :]
                if not idle:
                    break

    def _start(self, row: int, job: int) -> None:
        ready_s = self.now_s + int(self._startups[self._started % DRAWS])
        self._started += 1
        self.gpus[row, at.PHASE :] = (at.STARTING, job, ready_s, self.now_s)
        self.clock[at.NEXT_EVENT] = min(self.clock[at.NEXT_EVENT], ready_s)


def _rates(fleet: FleetFile) -> Floats:
    """Samples/s of a lone GPU by job and type; 0 where a job may not run."""
    return np.array([[job.rates.get(kind, 0.0) for kind in fleet.kinds] for job in fleet.jobs])


def _gpus(fleet: FleetFile) -> Counts:
    kinds = np.repeat(np.arange(len(fleet.kinds)), [kind.gpus for kind in fleet.gpu_types.values()])
    gpus = np.zeros((len(kinds), at.GPU_COLUMNS), dtype=np.int64)
    gpus[:, at.TYPE] = kinds
    return gpus


def _guarantees(fleet: FleetFile) -> Sizes:
    sizes = np.zeros((len(fleet.jobs), len(fleet.kinds)), dtype=np.int64)
    for place, job in enumerate(fleet.jobs):
        sizes[place, fleet.kinds.index(job.home)] = job.guaranteed
    return sizes


def _as_gpus(sizes: Sizes) -> Counts:
    """These workers as if each had a GPU of its own."""
    jobs, kinds = np.nonzero(sizes)
    many = sizes[jobs, kinds]
    gpus = np.zeros((int(many.sum()), at.GPU_COLUMNS), dtype=np.int64)
    gpus[:, at.TYPE], gpus[:, at.JOB] = np.repeat(kinds, many), np.repeat(jobs, many)
    gpus[:, at.PHASE] = at.READY
    return gpus


def _startups(fleet: FleetFile, seed: int) -> Floats:
    if not isinstance(fleet.startup_s, Startup):
        return np.full(DRAWS, np.ceil(fleet.startup_s))
    rng = np.random.default_rng([seed, 5])
    times: Floats = fleet.startup_s.median * np.exp(fleet.startup_s.sigma * rng.standard_normal(DRAWS))
    return np.ceil(times)
