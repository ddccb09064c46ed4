"""Worlds whose true C(n) is known, and the windows that their telemetry would show."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, Protocol

import numpy as np

from benchmarks.parameter_server import ParameterServer, measure
from estimator.throughput import ResourceLoad, StepTimes, ThroughputWindow
from services.simulator.families import true_curve
from services.simulator.plant import Plant

BATCH = 100
CURVE_WORKERS = 64
WORKER_NOISE = 0.05
"""Of a worker's busy fraction, as in the simulator's plants."""
TIMER_NOISE = 0.02


class Telemetry(StrEnum):
    """How much a trainer tells."""

    PROGRESS = "progress"
    """Nothing: offsets alone, and whether samples waited."""
    BUSY = "busy"
    """Busy fractions of the workers."""
    FULL = "full"
    """Also step times, and how busy each shard is."""


class World(Protocol):
    """One true throughput curve."""

    @property
    def family(self) -> str:
        """Worlds of one family share a row of the table."""
        ...

    def capacity(self, workers: int) -> float:
        """The true C(n)."""
        ...

    def window(self, workers: int, load: float, seed: int) -> ThroughputWindow:
        """What full telemetry says with `workers` workers at this share of C(n)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class CurveWorld:
    """A family of the simulator, with the step times and shard loads that go with its meaning."""

    plant: Plant
    curve: tuple[float, ...]

    @property
    def family(self) -> str:
        return str(self.plant.family)

    def capacity(self, workers: int) -> float:
        return self.curve[workers]

    def window(self, workers: int, load: float, seed: int) -> ThroughputWindow:
        draw = np.random.default_rng([seed, workers, round(100 * load)])
        rate = self.curve[workers] * load
        busy = self._busy(workers, rate, load)
        step_s = BATCH * busy / rate
        noise = np.exp(TIMER_NOISE * draw.standard_normal(3))
        demand_s = BATCH * self._demand_s()
        input_s, compute_s = self._own(workers, demand_s)
        wait_s = max(step_s - max(input_s, compute_s), demand_s)
        busy_noise = math.exp(WORKER_NOISE / math.sqrt(workers) * draw.standard_normal())
        shard = ResourceLoad("ps-0", min(1.0, rate / BATCH * demand_s * float(noise[0])))
        return ThroughputWindow(
            at_s=0.0,
            ready=workers,
            samples_per_s=rate,
            busy=min(busy * busy_noise, float(workers)),
            saturated=load >= 1,
            batch=BATCH,
            steps=StepTimes(input_s * float(noise[1]), compute_s * float(noise[1]), wait_s * float(noise[2])),
            resources=(shard,) if demand_s > 0 else (),
        )

    def _busy(self, workers: int, rate: float, load: float) -> float:
        """Who is busy: the loaded share of all, or as many as would do it alone."""
        if self.plant.slowdown == "members" or load >= 1:
            return workers * load
        upto = self.curve[: workers + 1]
        return float(np.interp(rate, upto, range(len(upto))))

    def _demand_s(self) -> float:
        """Seconds of the shard that a sample takes."""
        if self.plant.family == "hot-shard":
            return 1 / (self.plant.rate_per_worker * self.plant.ceiling_workers)
        return self.plant.contention / self.plant.rate_per_worker

    def _own(self, workers: int, demand_s: float) -> tuple[float, float]:
        """Input and compute of a step. Where hosts are short of CPU, input takes as long as it must."""
        compute_s = BATCH / self.plant.rate_per_worker - demand_s
        if self.plant.family != "input-cpu":
            return 0.0, compute_s
        per_host, feeds = self.plant.workers_per_host, self.plant.host_feeds_workers
        hosts, rest = divmod(workers, per_host)
        fed = hosts * min(feeds, per_host) + min(rest, feeds)
        return compute_s * workers / fed, compute_s


@dataclass(frozen=True, slots=True, eq=False)
class QueueWorld:
    """A parameter server simulated event by event."""

    family: str
    ps: ParameterServer
    _known: dict[int, float] = field(default_factory=dict)

    def capacity(self, workers: int) -> float:
        if workers not in self._known:
            self._known[workers] = BATCH * measure(self.ps, workers, seed=7).steps_per_s
        return self._known[workers]

    def window(self, workers: int, load: float, seed: int) -> ThroughputWindow:
        traffic = None if load >= 1 else load * self.capacity(workers) / BATCH
        seen = measure(self.ps, workers, traffic=traffic, seed=seed)
        loads = zip(seen.shard_busy, seen.shard_cv2, strict=True)
        return ThroughputWindow(
            at_s=0.0,
            ready=workers,
            samples_per_s=BATCH * seen.steps_per_s,
            busy=min(seen.busy, float(workers)),
            saturated=load >= 1,
            batch=BATCH,
            steps=StepTimes(seen.input_s, seen.compute_s, seen.wait_s),
            resources=tuple(ResourceLoad(f"ps-{i}", busy, cv2) for i, (busy, cv2) in enumerate(loads)),
        )


def told(window: ThroughputWindow, telemetry: Telemetry, at_s: float) -> ThroughputWindow:
    """The window as a trainer with this telemetry would show it."""
    if telemetry is Telemetry.FULL:
        return replace(window, at_s=at_s)
    busy = window.busy if telemetry is Telemetry.BUSY else None
    return replace(window, at_s=at_s, busy=busy, steps=None, resources=())


def curve_worlds() -> Iterator[CurveWorld]:
    """The simulator's families over a range of their parameters, slowed by members and by load."""
    kinds: tuple[Literal["members", "load"], ...] = ("members", "load")
    for slowdown in kinds:
        plants = [
            Plant(family="contention", contention=c, slowdown=slowdown) for c in (0.005, 0.02, 0.05, 0.1)
        ]
        plants += [
            Plant(family="retrograde", contention=c, coherency=k, slowdown=slowdown)
            for c, k in ((0.02, 0.0008), (0.01, 0.002), (0.05, 0.0003), (0.0, 0.001))
        ]
        plants += [
            Plant(family="hot-shard", ceiling_workers=h, slowdown=slowdown) for h in (8.0, 16.0, 24.0, 40.0)
        ]
        plants += [
            Plant(family="input-cpu", workers_per_host=w, host_feeds_workers=f, slowdown=slowdown)
            for w, f in ((4, 3.0), (8, 6.0), (8, 5.0), (4, 2.5))
        ]
        plants += [Plant(family="queueing", contention=c, slowdown=slowdown) for c in (0.02, 0.05, 0.1)]
        for plant in plants:
            yield CurveWorld(plant, tuple(true_curve(plant, CURVE_WORKERS).tolist()))


def queue_worlds() -> Iterator[QueueWorld]:
    """Parameter servers whose knee lies at about 11 and 21 workers."""
    for d in (0.005, 0.0025):
        yield QueueWorld("ps exponential", ParameterServer((d,)))
        yield QueueWorld("ps regular", ParameterServer((d,), service_cv2=0.0))
        yield QueueWorld("ps prefetching", ParameterServer((d,), service_cv2=0.3, prefetch=True))
        yield QueueWorld(
            "ps hot shard", ParameterServer((d, d / 2, d / 2, d / 2), service_cv2=0.5, latency_s=0.003)
        )
        yield QueueWorld("ps even shards", ParameterServer((d,) * 4, service_cv2=0.5, latency_s=0.003))
        yield QueueWorld(
            "ps input-bound", ParameterServer((d,), service_cv2=0.5, input_s=0.06, compute_s=0.04)
        )
        yield QueueWorld("ps shared", ParameterServer((d,), service_cv2=0.5, background=0.2))
