"""Small fleets for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from services.simulator.fleet.file import FleetFile, fleet_of
from services.simulator.fleet.traffic import FleetTraffic
from services.simulator.fleet.world import FleetWorld, Sizes
from services.simulator.trace import Floats


def a_job(name: str = "clicks", **settings: Any) -> dict[str, Any]:
    """Workers of 100 samples/s on the type `a`, without contention."""
    return {"name": name, "rates": {"a": 100.0}, "contention": 0.0, "mean_per_s": 100.0, **settings}


def a_fleet(*jobs: dict[str, Any], gpus: dict[str, int] | None = None, **settings: Any) -> FleetFile:
    """Workers are ready after a minute and leave at once after two seconds."""
    usual = {"startup_s": 60.0, "warmup_days": 0.0, "settle_h": 0.0, "days": 0.05, "profile_error": 0.0}
    kinds = {kind: {"gpus": count} for kind, count in (gpus or {"a": 8}).items()}
    return fleet_of({"gpu_types": kinds, "jobs": list(jobs) or [a_job()], **usual, **settings})


def arriving(*rates: list[float] | Floats, scored_from_min: int = 0) -> FleetTraffic:
    """These rates by the minute, a row a job, with nothing known before."""
    return FleetTraffic(0.0, np.array(rates, dtype=np.float64), 0, scored_from_min)


def sizes(*rows: list[int]) -> Sizes:
    """Workers by job and type."""
    return np.array(rows, dtype=np.int64)


def a_world(fleet: FleetFile, traffic: FleetTraffic, ready: Sizes, *, seed: int = 1) -> FleetWorld:
    world = FleetWorld(fleet, traffic, seed=seed)
    world.populate(ready)
    return world
