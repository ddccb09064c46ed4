"""Parts of the fleet's benchmark: phases that differ, curves of a type never seen, the programme's time."""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from statistics import fmean

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks.throughput_worlds import CURVE_WORKERS, CurveWorld
from estimator.fleet import Budget, ShareRules, Standing, Wish
from estimator.fleet.claims import claims_of, searchable
from estimator.fleet.configurations import Choice, Terms, choices_of
from estimator.fleet.guarantees import homes_of
from estimator.fleet.programme import solved
from estimator.fleet.tenants import Tenants
from estimator.throughput.gpu_types import GpuTypes, Guess
from services.simulator.families import true_curve
from services.simulator.fleet.builtin import builtin_fleet
from services.simulator.fleet.contest import judge_fleet
from services.simulator.fleet.run import FleetRun
from services.simulator.plant import Plant

Flat = dict[str, float]

RATIOS = (0.4, 0.7, 1.6, 3.0)
"""How fast a lone GPU of the type never seen is against the one that was."""
SEEN_AT = ((2, 0.5), (3, 0.7), (4, 0.8), (6, 0.6))
"""Workers and load of the windows on the type that was seen."""
JUDGED_AT = (1, 2, 4, 8, 12)
PROFILE_NOISE = 0.03
JOBS, KINDS, COUNTS = 500, 3, 8


def multiplexing(options: argparse.Namespace) -> Flat:
    """Jobs that are busy at different hours: GPUs of all together, over the sum of what each needs alone.

    With room for everybody each job has its wish, so its lateness is that of its separate plan; the fleet
    needs the most that are held at once, separate pools the most of each. The peer is an HPA per job.
    """
    fleet = builtin_fleet("shifted", seed=options.seed)
    roomy = {
        kind: about.model_copy(update={"gpus": 4 * about.gpus}) for kind, about in fleet.gpu_types.items()
    }
    fleet = fleet.model_copy(update={"gpu_types": roomy})
    flat: Flat = {"multiplexing_jobs": float(len(fleet.jobs))}
    verdict = judge_fleet("shifted", fleet, ["penstock", "fcfs"], seed=options.seed)
    for judged in verdict.judged:
        together, apart = _together(judged.run), float(judged.run.sizes.max(axis=0).sum())
        flat |= {
            f"multiplexing_{judged.policy}_late_share": judged.figures.weighted_late_share,
            f"multiplexing_{judged.policy}_gpus_together": together,
            f"multiplexing_{judged.policy}_gpus_apart": apart,
            f"multiplexing_{judged.policy}_ratio": together / apart,
        }
    return flat


def _together(run: FleetRun) -> float:
    return float(run.sizes.sum(axis=1).max())


def borrowed_curves(options: argparse.Namespace) -> Flat:
    """Mean |log error| of C(n) on a type never seen: the other type's curve as it is, then by the ratio.

    The plain ratio of one-GPU rates (Sia) stands beside ours, which knows that the parameter server's ceiling
    does not move with the GPU.
    """
    errors: dict[str, list[float]] = {"before": [], "after": [], "after_plain_ratio": []}
    for place, plant in enumerate(_plants()):
        draw = np.random.default_rng([options.seed, place])
        seen = CurveWorld(plant, tuple(true_curve(plant, CURVE_WORKERS).tolist()))
        guess = Guess(plant.rate_per_worker)
        types = GpuTypes()
        for number, (workers, load) in enumerate(SEEN_AT * 3):
            window = seen.window(workers, load, seed=options.seed + number)
            window = replace(window, at_s=60.0 * (number + 1), gpu_type="seen")
            types = types.seen(window, guess)
        lender = types.of("seen", guess)
        for ratio in RATIOS:
            truth = true_curve(_faster(plant, ratio), CURVE_WORKERS)
            measured = float(truth[1]) * math.exp(PROFILE_NOISE * draw.standard_normal())
            after = types.of("never", Guess(plant.rate_per_worker, lone_rates={"never": measured}))
            before = types.of("never", guess)
            for n in JUDGED_AT:
                errors["before"].append(_off(before.samples_per_s(n), truth[n]))
                errors["after"].append(_off(after.samples_per_s(n), truth[n]))
                plain = lender.samples_per_s(n) * measured / lender.samples_per_s(1)
                errors["after_plain_ratio"].append(_off(plain, truth[n]))
    return {f"borrowed_error_{name}": fmean(values) for name, values in errors.items()}


def _plants() -> list[Plant]:
    return [
        *(Plant(family="contention", contention=c) for c in (0.005, 0.02, 0.05)),
        *(Plant(family="queueing", contention=c) for c in (0.02, 0.05)),
        *(Plant(family="hot-shard", ceiling_workers=h) for h in (10.0, 24.0)),
    ]


def _faster(plant: Plant, ratio: float) -> Plant:
    """The same job on a GPU `ratio` times as fast: what a sample takes at the parameter server stays."""
    shared = {
        "contention": min(plant.contention * ratio, 0.99),
        "ceiling_workers": plant.ceiling_workers / ratio,
    }
    return plant.model_copy(update={"rate_per_worker": plant.rate_per_worker * ratio, **shared})


def _off(said: float, truth: float) -> float:
    return abs(math.log(max(said, 1e-9) / truth))


def programme_time(options: argparse.Namespace) -> Flat:
    """500 jobs, three types, up to eight sizes on each, half as many GPUs again wished as there are.

    Beside it the whole problem given to HiGHS at once, at the same gap.
    """
    rules = ShareRules(counts_max=COUNTS, gap=0.01, time_limit_s=5.0)
    jobs, there = _problem(options.seed, rules)
    began, worked = time.perf_counter(), time.process_time()
    solution = solved(jobs, there, rules)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - worked
    began = time.perf_counter()
    _whole(jobs, there)
    return {
        "programme_jobs": float(len(jobs)),
        "programme_choices": float(sum(map(len, jobs))),
        "programme_s": took_s,
        "programme_cpu_s": cpu_s,
        "programme_gap": solution.gap,
        "programme_whole_highs_s": time.perf_counter() - began,
    }


def _problem(seed: int, rules: ShareRules) -> tuple[list[tuple[Choice, ...]], dict[str, int]]:
    draw = np.random.default_rng([seed, 9])
    kinds = tuple(f"type-{number}" for number in range(KINDS))
    wishes = [_wish(number, kinds, draw) for number in range(JOBS)]
    wanted = sum(min(wish.workers.values()) for wish in wishes)
    budget = Budget.counted({kind: int(wanted / 1.5 / KINDS) for kind in kinds})
    claims = claims_of(wishes, budget, Tenants(), homes_of([wish.job for wish in wishes], budget))
    terms = Terms.of(budget, rules)
    return [choices_of(searchable(claim), terms) for claim in claims], budget.gpus


def _wish(number: int, kinds: tuple[str, ...], draw: np.random.Generator) -> Wish:
    alone, c = float(np.exp(draw.uniform(5.0, 8.0))), float(draw.uniform(0.0, 0.03))
    speeds = {kind: alone * float(draw.uniform(0.8, 3.0)) for kind in kinds}
    n = np.arange(65)
    curves = {kind: speed * n / (1 + c * np.maximum(n - 1, 0)) for kind, speed in speeds.items()}
    demand = float(curves[kinds[0]][int(draw.integers(4, 40))])
    counts = {kind: min(int(np.searchsorted(curve, demand)), 64) for kind, curve in curves.items()}
    standing = Standing(f"job-{number}", weight=float(draw.choice([1.0, 2.0, 4.0])), guaranteed=1)
    return Wish(standing, counts, {kind: tuple(curve.tolist()) for kind, curve in curves.items()}, demand)


def _whole(jobs: list[tuple[Choice, ...]], there: dict[str, int]) -> None:
    flat = [choice for choices in jobs for choice in choices]
    owners = np.repeat(np.arange(len(jobs)), [len(choices) for choices in jobs])
    once = (owners[None, :] == np.arange(len(jobs))[:, None]).astype(np.float64)
    used = np.array([[c.gpus * (c.at.gpu_type == kind) for c in flat] for kind in there])
    milp(
        -np.array([choice.value for choice in flat]),
        integrality=np.ones(len(flat)),
        bounds=Bounds(0, 1),
        constraints=[LinearConstraint(once, 1, 1), LinearConstraint(used, ub=list(there.values()))],
        options={"mip_rel_gap": 0.01, "time_limit": 30.0},
    )
