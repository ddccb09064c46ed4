"""From a trace and a plant to the traffic that is simulated."""

from __future__ import annotations

import math

import numpy as np

from services.simulator.arrivals import DAY_S, arrivals_of, scale_to
from services.simulator.errors import NothingToJudge
from services.simulator.families import true_curve
from services.simulator.plant import Plant
from services.simulator.run import Course
from services.simulator.trace import Trace


def course_of(
    trace: Trace, plant: Plant, *, seed: int, days: float | None = None, settle_s: float = DAY_S
) -> Course:
    """The warm-up and what is scored after it, at most `days` long.

    The warm-up is cut to half the trace where the trace is too short for more, so that there is
    something left to score. Policies run through its last `settle_s`; what is before is history only.
    """
    if days is not None and not days > 0:  # also NaN
        raise NothingToJudge(f"--days is {days:g}; it must be more than 0")
    scale = 1.0
    if plant.peak_workers is not None:
        scale = scale_to(trace, float(true_curve(plant, plant.peak_workers)[-1]))
    everything = arrivals_of(trace, scale=scale, seed=seed, gusts=plant.gusts)
    seconds = len(everything.per_second)
    warm = min(round(plant.warmup_days * DAY_S), seconds // 2)
    warm -= warm % 60
    last = seconds if days is None else round(min(float(seconds), warm + days * DAY_S))
    if last - warm < 60:
        raise NothingToJudge(f"{trace.name}: nothing is left to score after {warm} s of warm-up")
    first = max(0, warm - round(settle_s / 60) * 60)
    before = everything.part(0, first).minutes if first else np.empty(0)
    return Course(before, everything.part(first, last), warm - first)


def share_beyond(course: Course, plant: Plant) -> float:
    """The share of scored minutes whose traffic is beyond what `workers_max` workers can train."""
    most = float(true_curve(plant, plant.most_workers).max())
    minutes = course.scored.minutes
    return float(np.mean(minutes > most)) if len(minutes) else math.nan
