"""Parts of the fleet's benchmark: phases that differ, curves of a type never seen, the programme's time."""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from statistics import fmean

import numpy as np

from benchmarks.fleet_programme import fleet, timed, unsolved
from benchmarks.throughput_worlds import CURVE_WORKERS, CurveWorld
from estimator.fleet import FleetPlan, Method, ShareRules
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
COUNTS = 8


def multiplexing(options: argparse.Namespace) -> Flat:
    """Jobs that are busy at different hours: GPUs of all together, over the sum of what each needs alone.

    With room for everybody each job has its wish, so its lateness is that of its separate plan; the fleet
    needs the most that are held at once, separate pools the most of each. The peer is an HPA per job.
    """
    shifted = builtin_fleet("shifted", seed=options.seed)
    roomy = {
        kind: about.model_copy(update={"gpus": 4 * about.gpus}) for kind, about in shifted.gpu_types.items()
    }
    shifted = shifted.model_copy(update={"gpu_types": roomy})
    flat: Flat = {"multiplexing_jobs": float(len(shifted.jobs))}
    verdict = judge_fleet("shifted", shifted, ["penstock", "fcfs"], seed=options.seed)
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
    """500 jobs, three types, up to eight sizes on each: shared by the programme, and by the heap alone."""
    budget, wishes = fleet(options.seed)
    rules = ShareRules(counts_max=COUNTS, gap=0.01, time_limit_s=5.0)
    began = time.perf_counter()
    plan, cpu_s = timed(budget, wishes, rules=rules)
    wall_s = time.perf_counter() - began
    heaped, heap_cpu_s = timed(budget, wishes, rules=rules, solve=unsolved)
    return {
        "programme_jobs": float(len(wishes)),
        "programme_cpu_s": cpu_s,
        "programme_wall_s": wall_s,
        "programme_solved": float(plan.method is Method.PROGRAMME),
        "programme_gap": plan.gap if plan.method is Method.PROGRAMME else 1.0,
        "programme_heap_cpu_s": heap_cpu_s,
        "programme_satisfaction": _satisfaction(plan),
        "programme_heap_satisfaction": _satisfaction(heaped),
    }


def _satisfaction(plan: FleetPlan) -> float:
    """Weighted mean over the jobs."""
    weights = sum(allotment.weight for allotment in plan.allotments)
    return sum(allotment.weight * allotment.satisfaction for allotment in plan.allotments) / weights
