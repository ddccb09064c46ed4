"""What arrives at every job of a fleet, by the minute, and what was known of it before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from services.simulator.arrivals import PEAK_QUANTILE, arrivals_of
from services.simulator.errors import FleetInvalid, NothingToJudge
from services.simulator.fleet.file import FleetFile, FleetJob, Shape
from services.simulator.trace import Floats, read_trace
from services.traffic.shape import DAY_S, MONDAY_S, FlashCrowd, SyntheticTraffic

START_S = MONDAY_S + 7 * DAY_S
"""A Monday; made-up worlds are scored from the day after it."""


@dataclass(frozen=True, slots=True, eq=False)
class FleetTraffic:
    """`minutes[j, m]`: the mean rate of job j in minute m. The world begins at minute `first`."""

    start_s: float
    """Of minute 0, on a calendar of the world's own."""
    minutes: Floats
    first: int
    scored: int
    """The minute from which samples and GPUs are counted."""

    @property
    def begins_s(self) -> float:
        """When the world begins."""
        return self.start_s + 60.0 * self.first

    @property
    def simulated(self) -> Floats:
        """The minutes that are simulated, not only known."""
        return self.minutes[:, self.first :]

    @property
    def judged(self) -> Floats:
        """The minutes that count."""
        return self.minutes[:, self.scored :]


def traffic_of(fleet: FleetFile, *, seed: int, days: float | None = None) -> FleetTraffic:
    """Minutes of every job, without telling the future: a trace's bins are held, as `arrivals.py` does."""
    return sized(fleet, unsized(fleet, seed=seed, days=days))


def unsized(fleet: FleetFile, *, seed: int, days: float | None = None) -> FleetTraffic:
    """The same before any job's traffic is scaled to its size."""
    if days is not None and not 0 < days < inf:
        raise NothingToJudge(f"--days is {days:g}; it must be a number above 0")
    before = round(fleet.warmup_days * 1440)
    settle = round(fleet.settle_h * 60)
    minutes = before + settle + max(1, round((fleet.days if days is None else days) * 1440))
    scored_s = START_S + DAY_S + 60.0 * round(60 * fleet.from_hour)
    start_s = scored_s - 60.0 * (before + settle)
    rows = [
        _minutes(job, minutes, start_s, scored_s, seed=1000 * seed + place)
        for place, job in enumerate(fleet.jobs)
    ]
    return FleetTraffic(start_s, np.array(rows), before, before + settle)


def sized(fleet: FleetFile, traffic: FleetTraffic) -> FleetTraffic:
    """Each job's traffic at the size that the fleet file gives it."""
    rows = [_sized(job, rates) for job, rates in zip(fleet.jobs, traffic.minutes, strict=True)]
    return replace(traffic, minutes=np.array(rows))


def workers_needed(job: FleetJob, kind: str, rates: Floats | float) -> Floats:
    """Workers of a type, in fractions, that carry each rate; infinite beyond the curve's ceiling.

    From C(n) = r·n / (1 + c·(n-1)):  n = rate·(1 - c) / (r - rate·c), or rate/r below one worker.
    """
    rate, alone, c = np.asarray(rates, dtype=np.float64), job.rates[kind], job.contention
    room = alone - rate * c
    needed = np.where(room > 0, rate * (1 - c) / np.where(room > 0, room, 1.0), np.inf)
    least: Floats = np.where(rate <= alone, rate / alone, needed)
    return least


def _minutes(job: FleetJob, minutes: int, start_s: float, scored_s: float, *, seed: int) -> Floats:
    if job.trace is not None:
        return _from_trace(job, minutes, seed)
    shape = job.shape or Shape()
    crowds = tuple(
        FlashCrowd(scored_s + 3600 * crowd.at_hour, crowd.height, crowd.rise_s, crowd.fall_s)
        for crowd in shape.crowds
    )
    noise_seed = seed if shape.seed is None else shape.seed
    middles: Floats = start_s + 60.0 * (np.arange(minutes, dtype=np.float64) + 0.5)
    quiet = SyntheticTraffic(1.0, shape.diurnal, shape.peak_hour, shape.weekly, shape.noise, (), noise_seed)
    rates: Floats = quiet.rates(middles - 3600 * job.phase_h)
    # Crowds are in the world's time: who shifts a job's day does not shift what happens to it.
    for crowd in crowds:
        rates = rates + crowd.lift(middles)
    return rates


def _from_trace(job: FleetJob, minutes: int, seed: int) -> Floats:
    """The trace by minutes, from its beginning; round again where it is too short or shifted."""
    assert job.trace is not None  # noqa: S101 - asked for by the caller
    held = arrivals_of(read_trace(job.trace), scale=1.0, seed=seed).minutes
    shift = round(60 * job.phase_h)
    rates: Floats = held[(np.arange(minutes) - shift) % len(held)]
    return rates


def _sized(job: FleetJob, rates: Floats) -> Floats:
    if job.mean_per_s is not None:
        mean = float(rates.mean())
        if not mean > 0:
            raise FleetInvalid(f"job {job.label!r}: its traffic is zero throughout and cannot be scaled")
        return rates * (job.mean_per_s / mean)
    if job.peak_workers is None:
        return rates
    peak = float(np.quantile(rates, PEAK_QUANTILE))
    if not peak > 0:
        raise FleetInvalid(f"job {job.label!r}: 99.9 % of its traffic is zero; give mean_per_s instead")
    n, alone, c = job.peak_workers, job.rates[job.home], job.contention
    return rates * (alone * n / (1 + c * max(n - 1, 0.0)) / peak)
