"""Fleets without a file: `builtin:NAME`, seeded, made from synthetic traffic and from a given trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from services.simulator.errors import FleetInvalid
from services.simulator.fleet.balance import balanced
from services.simulator.fleet.file import Crowd, FleetFile, FleetJob, GpuType, Shape
from services.simulator.fleet.traffic import FleetTraffic, sized, unsized, workers_needed
from services.simulator.trace import Floats

PREFIX = "builtin:"
LOAD_STEP_MIN = 15
"""The load of a fleet is looked at in steps of this many minutes: a spike of one is absorbed by the SLO."""

REGIONS = ((20.0, 0.7), (4.0, 0.15), (12.0, 0.15))
"""Busiest hour UTC of a region's evening, and its share of the jobs."""
EVENT_H = 20.5
"""Something happens in the evening that many jobs feel at once: that is when a fleet is short of GPUs."""
SPEEDS = {"a100": (2.4, 4.0), "v100": (1.3, 2.0), "t4": (1.0, 1.0)}
"""How much faster than a T4 jobs are, from and to."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a built-in fleet is made of."""

    gpus: Mapping[str, int]
    jobs: int
    load: float
    """Peak of what the jobs need over what there is, at best on all types together."""
    regions: tuple[tuple[float, float], ...] = REGIONS
    crowd_share: float = 0.15
    """Of the jobs have a crowd of their own, at any hour."""
    event_share: float = 0.0
    """Of the jobs feel the event."""
    event_h: float = EVENT_H
    days: float = 1.0
    from_hour: float = 0.0
    warmup_days: float = 8.0
    guaranteed_share: float = 0.35
    """Of a job's peak need is guaranteed, as far as the type allows."""


RECIPES: Mapping[str, Recipe] = {
    "contended": Recipe(
        {"a100": 96, "v100": 128, "t4": 160},
        jobs=100,
        load=1.3,
        event_share=0.5,
        days=0.5,
        from_hour=12.0,
    ),
    "calm": Recipe({"a100": 96, "v100": 128, "t4": 160}, jobs=100, load=0.8),
    "shifted": Recipe(
        {"a100": 64}, jobs=12, load=0.8, regions=tuple((hour, 1 / 24) for hour in map(float, range(24)))
    ),
    "small": Recipe(
        {"a100": 16, "v100": 16},
        jobs=10,
        load=1.3,
        regions=((6.0, 1.0),),
        event_share=0.5,
        event_h=6.0,
        days=0.5,
        warmup_days=2.0,
    ),
}


def builtin_fleet(name: str, *, seed: int, trace: Path | None = None) -> FleetFile:
    """The fleet of that name. With a trace every second job follows it, at a phase of its own.

    Job sizes are log-uniform; a tenth of the jobs weighs 4, three tenths weigh 2; a third may not use the
    slowest type. Traffic is scaled as a whole so that the load's peak is the recipe's.
    """
    recipe = RECIPES.get(name)
    if recipe is None:
        raise FleetInvalid(f"no built-in fleet is called {name!r}; there are {', '.join(RECIPES)}")
    rng = np.random.default_rng([seed, 8])
    kinds = {kind: GpuType(gpus=count) for kind, count in recipe.gpus.items()}
    jobs = tuple(_job(place, recipe, rng, trace) for place in range(recipe.jobs))
    fleet = FleetFile(
        gpu_types=kinds,
        jobs=jobs,
        days=recipe.days,
        from_hour=recipe.from_hour,
        warmup_days=recipe.warmup_days,
        settle_h=2.0,
    )
    raw = unsized(fleet, seed=seed)
    fleet = _loaded(fleet, raw, recipe.load)
    return _guaranteed(fleet, sized(fleet, raw).judged, recipe)


def load_of(fleet: FleetFile, minutes: Floats) -> Floats:
    """How much of the fleet its jobs need at best, step by step: above 1 somebody must wait."""
    steps = minutes.shape[1] // LOAD_STEP_MIN
    means = minutes[:, : steps * LOAD_STEP_MIN].reshape(len(minutes), steps, LOAD_STEP_MIN).mean(axis=2)
    capacity = np.array([kind.gpus for kind in fleet.gpu_types.values()], dtype=np.float64)
    return np.array([balanced(_needs(fleet, means[:, step]), capacity)[0] for step in range(steps)])


def _job(place: int, recipe: Recipe, rng: np.random.Generator, trace: Path | None) -> FleetJob:
    weights = np.array([share for _, share in recipe.regions])
    hour = recipe.regions[int(rng.choice(len(recipe.regions), p=weights / weights.sum()))][0]
    peak_hour = float((hour + rng.normal(0.0, 1.5)) % 24)
    alone = float(np.exp(rng.uniform(np.log(200.0), np.log(5000.0))))
    speeds = {kind: float(rng.uniform(*SPEEDS[kind])) for kind in recipe.gpus}
    allowed = [kind for kind in speeds if kind != "t4" or rng.random() > 1 / 3]
    home = allowed[int(rng.integers(len(allowed)))]
    order = [home, *(kind for kind in allowed if kind != home)]
    crowded = rng.random() < recipe.crowd_share
    crowd = Crowd(at_hour=float(rng.uniform(0, 24 * recipe.days)), height=float(rng.uniform(0.5, 1.5)))
    felt = rng.random() < recipe.event_share
    event = Crowd(
        at_hour=recipe.event_h - recipe.from_hour,
        height=float(rng.uniform(0.8, 1.6)),
        rise_s=600.0,
        fall_s=2400.0,
    )
    shape = Shape(
        peak_hour=peak_hour,
        diurnal=float(rng.uniform(0.35, 0.65)),
        noise=float(rng.uniform(0.03, 0.12)),
        crowds=(crowd,) * crowded + (event,) * felt,
    )
    size = float(np.exp(rng.uniform(np.log(1.0), np.log(12.0))))
    weight = float(rng.choice([1.0, 2.0, 4.0], p=[0.6, 0.3, 0.1]))
    follows = trace is not None and place % 2 == 1
    return FleetJob(
        name=f"job-{place:03}",
        tenant=("ads", "feed", "search", "video")[place % 4],
        weight=weight,
        rates={kind: alone * speeds[kind] for kind in order},
        contention=float(rng.uniform(0.005, 0.03)),
        trace=trace if follows else None,
        shape=None if follows else shape,
        phase_h=peak_hour - 20.0 if follows else 0.0,
        peak_workers=size,
    )


def _loaded(fleet: FleetFile, raw: FleetTraffic, load: float) -> FleetFile:
    """The fleet with all sizes scaled together until the load's peak is right; workers slow each other down,
    so that takes a few rounds."""
    for _ in range(3):
        peak = float(load_of(fleet, sized(fleet, raw).judged).max())
        jobs = tuple(
            job.model_copy(update={"peak_workers": (job.peak_workers or 1.0) * load / peak})
            for job in fleet.jobs
        )
        fleet = fleet.model_copy(update={"jobs": jobs})
    return fleet


def _guaranteed(fleet: FleetFile, minutes: Floats, recipe: Recipe) -> FleetFile:
    """Guarantees by size, as far as the GPUs of each job's first type go."""
    peaks = np.quantile(minutes, 0.999, axis=1)
    left = {kind: about.gpus for kind, about in fleet.gpu_types.items()}
    jobs = []
    for job, peak in zip(fleet.jobs, peaks, strict=True):
        needed = float(workers_needed(job, job.home, peak))
        promised = min(max(1, int(recipe.guaranteed_share * needed)), left[job.home])
        left[job.home] -= promised
        jobs.append(job.model_copy(update={"guaranteed": promised}))
    return fleet.model_copy(update={"jobs": tuple(jobs)})


def _needs(fleet: FleetFile, rates: Floats) -> Floats:
    return np.array(
        [
            [float(workers_needed(job, kind, rate)) if kind in job.rates else np.inf for kind in fleet.kinds]
            for job, rate in zip(fleet.jobs, rates, strict=True)
        ]
    )
