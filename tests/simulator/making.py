"""Small worlds for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from services.simulator.arrivals import Arrivals
from services.simulator.plant import Plant, plant_of
from services.simulator.run import Course
from services.simulator.trace import Floats, Trace
from services.simulator.world import World


def a_plant(**settings: Any) -> Plant:
    """Workers of 100 samples/s without contention, ready after a minute."""
    usual = {"rate_per_worker": 100.0, "contention": 0.0, "startup_s": 60.0, "workers_max": 16, "noise": 0.0}
    return plant_of({**usual, **settings})


def arriving(*minutes: float) -> Arrivals:
    """These rates, a minute each."""
    return Arrivals(0.0, np.repeat(np.array(minutes, dtype=np.float64), 60))


def a_world(plant: Plant, arrivals: Arrivals, *, workers: int, seed: int = 1) -> World:
    world = World(plant, arrivals, seed=seed)
    world.populate(workers)
    return world


def a_course(rates: Floats, *, scored_from_min: int = 0) -> Course:
    """Minutes of traffic with nothing known before."""
    return Course(np.empty(0), Arrivals(0.0, np.repeat(rates, 60)), scored_from_min * 60)


def a_day(*, seed: int = 0, minutes: int = 1440, mean: float = 600.0) -> Floats:
    """A noisy day by minutes."""
    rng = np.random.default_rng(seed)
    rhythm = 1 + 0.6 * np.sin(np.arange(minutes) / 1440 * 2 * np.pi)
    noisy: Floats = mean * rhythm * rng.lognormal(0.0, 0.1, minutes)
    return noisy


def a_trace(rates: Floats, *, step_s: float = 60.0, name: str = "made-up") -> Trace:
    starts = np.arange(len(rates), dtype=np.float64) * np.float64(step_s)
    return Trace(name, starts, rates, float(len(rates) * step_s), step_s)
