"""One whole tick of a large fleet, in memory: read, forecast, plan, share, assign, record."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from estimator.fleet import Budget, Configuration, FleetPlan, Standing, Wish, share
from estimator.rules.penstock import penstock
from forecasting.fleet import Fleet
from forecasting.forecast import Forecast
from forecasting.grid import Grid
from forecasting.history import TrafficHistory
from services.control.loop import JobLoop, Ports
from services.control.types import Decision
from services.simulator.arrivals import Arrivals
from services.simulator.plant import Plant
from services.simulator.ports import (
    OneController,
    WorldClock,
    WorldMeter,
    WorldPool,
    WorldStore,
    WorldTelemetry,
    run_now,
)
from services.simulator.run import policy_for
from services.simulator.world import World
from services.store import codec
from services.traffic.shape import DAY_S, MONDAY_S, SyntheticTraffic

JOBS, WORKERS, PARTITIONS = 1000, 8, 16
KINDS = ("a100", "v100", "t4", "l4")
SPEEDS = {"a100": 3.0, "v100": 1.6, "t4": 1.0, "l4": 1.3}
HISTORY_DAYS = 3
TICKS_S = (10, 60, 70)
"""The first makes and compiles; the second forecasts; in the third, of a new minute, every job plans."""

Flat = dict[str, float]


class EvenMeter(WorldMeter):
    """Tells the rates of partitions with leases too, so that the assignment is planned at every tick."""

    def _rates(self, rate: float) -> tuple[float, ...]:
        return (rate / PARTITIONS,) * PARTITIONS


class EncodingStore(WorldStore):
    """Writes what a Redis store would send, and sends it nowhere."""

    sent = 0

    async def commit(self, decision: Decision, *, fence: int) -> None:
        """As `RedisState.commit`, up to the wire."""
        parts = [codec.encode_state(decision.state), codec.encode_decision(decision)]
        parts.append(codec.encode_assignment(decision.state.assignment))
        EncodingStore.sent += sum(map(len, parts))
        await super().commit(decision, fence=fence)


@dataclass(slots=True)
class GivenForecasts:
    """The fleet's one call of this minute, handed to the job it is for."""

    job: str
    said: dict[str, Forecast]

    def forecast(self, history: TrafficHistory) -> Forecast | None:
        """What was said of this job's topic."""
        del history
        return self.said.get(self.job)


@dataclass(frozen=True, slots=True)
class Job:
    """A job's loop and the world it runs in."""

    name: str
    loop: JobLoop
    world: World
    meter: WorldMeter


def whole_tick(options: argparse.Namespace) -> Flat:
    """The slowest of each part after the first ticks, and their sum, as if all fell into one tick.

    More is wished than there is, so the programme decides, with its usual two seconds. All in one process:
    `cpu` is what a machine of its own would need; `wall` is what it took beside whatever else ran.
    """
    said: dict[str, Forecast] = {}
    jobs = [_job(number, options.seed, said) for number in range(JOBS)]
    budget = Budget.counted({kind: JOBS * WORKERS // len(KINDS) for kind in KINDS})
    forecasts = Fleet(Grid(60.0, 3600.0, DAY_S))
    slowest: Flat = {}
    minute = -1
    for second in TICKS_S:
        for job in jobs:
            job.world.advance(second)
        spent: Flat = {}
        if second // 60 != minute:
            minute = second // 60
            with _Timed("forecast", spent):
                said.clear()
                said.update(forecasts.forecast({job.name: job.meter.history() for job in jobs}))
        with _Timed("loops", spent):
            decisions = [run_now(job.loop.tick()).decision for job in jobs]
        with _Timed("fleet", spent):
            plan = _shared(jobs, decisions, budget)
        print(second, {name: round(value, 2) for name, value in spent.items()}, plan.method, flush=True)
        if second > TICKS_S[0]:
            slowest |= {name: max(value, slowest.get(name, 0.0)) for name, value in spent.items()}
    for clock in ("cpu_s", "wall_s"):
        slowest[clock] = sum(value for name, value in slowest.items() if name.endswith(f"_{clock}"))
    return {f"tick_{name}": value for name, value in slowest.items()} | {
        "tick_jobs": float(JOBS),
        "tick_workers": float(JOBS * WORKERS),
        "tick_types": float(len(KINDS)),
    }


def _job(number: int, seed: int, said: dict[str, Forecast]) -> Job:
    name = f"job-{number}"
    shape = SyntheticTraffic(WORKERS * 1000.0, peak_hour=number % 24, noise=0.05, seed=1000 * seed + number)
    start_s = MONDAY_S + 10 * DAY_S
    seconds = start_s + np.arange(240.0)
    plant = Plant(rate_per_worker=1000.0, partitions=PARTITIONS, workers_max=32, startup_s=120.0)
    world = World(plant, Arrivals(start_s, shape.rates(seconds)), seed=seed)
    world.populate(WORKERS)
    before = shape.history(until_s=start_s, step_s=60.0, days=HISTORY_DAYS).rates
    meter, pool = EvenMeter(world, before, tick_s=10), WorldPool(world)
    ports = Ports(
        clock=WorldClock(world),
        leadership=OneController(),
        meter=meter,
        forecasts=GivenForecasts(name, said),
        pool=pool,
        telemetry=WorldTelemetry(world, pool, seed=seed),
        store=EncodingStore(world),
    )
    loop = JobLoop(name, policy_for(penstock(), plant), ports, tell=lambda _: None)
    return Job(name, loop, world, meter)


def _shared(jobs: list[Job], decisions: list[Decision | None], budget: Budget) -> FleetPlan:
    """What the fleet makes of a tick's decisions."""
    wishes = []
    for number, (job, decision) in enumerate(zip(jobs, decisions, strict=True)):
        assert decision is not None
        home = KINDS[number % len(KINDS)]
        curve = job.world.curve[: job.world.plant.most_workers + 1] / SPEEDS[home]
        curves = {kind: curve * speed for kind, speed in SPEEDS.items()}
        demand = float(curves[home][decision.planned])
        counts = {kind: min(int(np.searchsorted(c, demand)), len(c) - 1) for kind, c in curves.items()}
        standing = Standing(job.name, weight=1.0 + number % 3, guaranteed=2, gpu_types=(home, *_others(home)))
        told = {kind: tuple(c[: counts[kind] + 2].tolist()) for kind, c in curves.items()}
        wishes.append(
            Wish(standing, counts, told, demand, Configuration(home, decision.requested), preferred=home)
        )
    return share(budget, wishes)


def _others(home: str) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if kind != home)


class _Timed:
    """Adds the wall and CPU time of a block to `spent`."""

    def __init__(self, name: str, spent: Flat) -> None:
        self._name, self._spent = name, spent

    def __enter__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self._spent[f"{self._name}_wall_s"] = time.perf_counter() - self._wall
        self._spent[f"{self._name}_cpu_s"] = time.process_time() - self._cpu
