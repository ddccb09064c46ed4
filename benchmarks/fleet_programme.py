"""How long the fleet's integer programme takes: `python -m benchmarks.fleet_programme`.

500 jobs on 3 types with 8 worker counts each, twice as much wished of each type as there is. Beside it
the heap, which is what decides when the programme finds nothing.
"""

from __future__ import annotations

import time

import numpy as np

from estimator.fleet import Budget, Configuration, ShareRules, Standing, Wish, share
from estimator.fleet.plan import FleetPlan
from estimator.fleet.programme import Solution, Unsolved

JOBS = 500
SPEEDS = {"t4": 40.0, "v100": 100.0, "a100": 180.0}
CONTENDED = 2.0
"""Wishes over GPUs, type by type; trading types brings it down to about 1.3."""


def fleet(seed: int) -> tuple[Budget, list[Wish]]:
    """Jobs of many sizes, each faster on some types than on others."""
    draw = np.random.default_rng(seed)
    wishes = [_wish(index, draw) for index in range(JOBS)]
    wanted = dict.fromkeys(SPEEDS, 0.0)
    for wish in wishes:
        wanted[wish.preferred] += wish.workers[wish.preferred]
    return Budget.counted({kind: int(gpus / CONTENDED) for kind, gpus in wanted.items()}), wishes


def _wish(index: int, draw: np.random.Generator) -> Wish:
    demand = float(draw.lognormal(6.0, 1.0))
    counts = np.arange(400)
    curves, workers = {}, {}
    for kind, speed in SPEEDS.items():
        rate = speed * draw.uniform(0.6, 1.6)
        curve = rate * counts / (1 + 0.01 * np.maximum(counts - 1, 0))
        curves[kind] = tuple(curve.tolist())
        workers[kind] = min(int(np.searchsorted(curve, demand * 1.1)), 300)
    kinds = list(SPEEDS)
    preferred = kinds[int(draw.integers(len(kinds)))]
    current = Configuration(preferred, max(1, workers[preferred] - 1))
    job = Standing(f"job-{index}", weight=float(draw.choice([1.0, 1.0, 2.0, 4.0])), guaranteed=0)
    return Wish(job, workers, curves, demand, current=current, preferred=preferred)


def timed(budget: Budget, wishes: list[Wish], **options: object) -> tuple[FleetPlan, float]:
    """The plan, and the processor time it took."""
    began = time.process_time()  # the machine may be busy with other things
    plan = share(budget, wishes, **options)  # type: ignore[arg-type]
    return plan, time.process_time() - began


def unsolved(*_: object) -> Solution:
    """A solver that finds nothing, so that the heap decides."""
    raise Unsolved("the heap was asked for")


def main() -> None:
    """Print one line a seed: method, gap, seconds, mean weighted satisfaction; the heap's beside it."""
    rules = ShareRules(time_limit_s=5.0, gap=0.01)
    for seed in range(3):
        budget, wishes = fleet(seed)
        for options in ({}, {"solve": unsolved}):
            plan, seconds = timed(budget, wishes, rules=rules, **options)
            weight = sum(allotment.weight for allotment in plan.allotments)
            level = sum(a.weight * a.satisfaction for a in plan.allotments) / weight
            met = sum(a.weight for a in plan.allotments if a.satisfaction > 1 - 1e-9) / weight
            print(
                f"seed {seed}  {plan.method:<10} gap {plan.gap:.4f}  {seconds:6.2f} s  "
                f"satisfaction {level:.4f}  met {met:.4f}  {plan.note}"
            )


if __name__ == "__main__":
    main()
