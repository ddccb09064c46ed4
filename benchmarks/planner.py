"""The planner's speed and its frontier against HPA: `python -m benchmarks.planner` (or `make bench-planner`).

Without arguments only the speed, in seconds; `--frontier` runs the simulator on every trace at hand, which
takes minutes. Writes `benchmarks/results/planner.md` and `planner.json`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any, cast

import numpy as np

from benchmarks.planner_parts import run, shortened
from benchmarks.plants import PLANTS
from benchmarks.policies import RESULTS, traces_at_hand
from estimator.planner import rollout
from estimator.rules import Rule, rule_named
from estimator.rules.penstock import penstock
from services.simulator.contest import Contest
from services.simulator.hull import Point, cost_at, late_at, lower_hull, pooled
from services.simulator.plant import Plant
from services.simulator.run import Course

JOBS, STEPS, STEP_S, WORKERS, PATHS = 1000, 30, 60.0, 64, 44
TARGETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
PAIRS = (("hot-join", "cooperative"), ("rebalance-5", "rebalance-5"))
"""Where Penstock runs, and where HPA runs: system against system, then both on one plant."""
WARM_S = 3 * 3600
"""Simulated before scoring; what is before that is history."""


def speed(flat: dict[str, float]) -> str:
    """A plan for each of a thousand jobs, every size from 1 to 64 tried, on one core."""
    dice = np.random.default_rng(1)
    jobs = [_job(dice) for _ in range(JOBS)]
    rollout.roll(*jobs[0])  # compiled before the clock runs
    took_s = _timed(lambda: [rollout.roll(*job) for job in jobs])
    plain_s = _timed(lambda: _plainly(jobs[:2])) / 2 * JOBS
    flat |= {"plan_1000_jobs_s": took_s, "plan_1000_jobs_plain_python_s": plain_s}
    return (
        f"{JOBS} jobs, {STEPS} steps of {STEP_S:g} s, {WORKERS} candidates, {PATHS} paths, backlog as a "
        f"continuous state: {took_s:.2f} s compiled, {plain_s:,.0f} s in plain Python "
        f"({plain_s / took_s:,.0f} times as long; measured on 2 jobs)"
    )


def _job(dice: np.random.Generator) -> tuple[Any, ...]:
    rates = 3000.0 * np.exp(np.cumsum(0.05 * dice.standard_normal((PATHS, STEPS)), axis=1))
    curve = np.array([100.0 * n / (1 + 0.02 * max(n - 1, 0)) for n in range(WORKERS + 1)])
    return (
        np.arange(1, WORKERS + 1), rates, np.full(PATHS, 1 / PATHS), curve, np.array([60.0, 60.0]),
        30, 32, 0, float(dice.uniform(0, 1e5)), 30.0, STEP_S, 60.0, 180.0, 0.0,
    )  # fmt: skip


def _plainly(jobs: Sequence[tuple[Any, ...]]) -> None:
    """The same loops, not compiled."""
    names = ("_capacity", "_queue")
    fast = {name: getattr(rollout, name) for name in names}
    try:
        for name in names:
            setattr(rollout, name, fast[name].py_func)
        for job in jobs:
            cast("Any", rollout.roll).py_func(*job)
    finally:
        for name in names:
            setattr(rollout, name, fast[name])


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def frontier(options: argparse.Namespace, flat: dict[str, float]) -> list[str]:
    """Penstock at every target against HPA-80, all traces pooled."""
    lines = []
    for ours, theirs in PAIRS:
        if options.plant and ours not in options.plant:
            continue
        courses = _courses(ours, options)
        points = []
        for target in options.target or TARGETS:
            plant = PLANTS[ours].model_copy(update={"late_share_target": target})
            points.append(_point(f"penstock at {target:g}", penstock, plant, courses, options))
            flat |= _flat(f"{ours}_penstock_{target:g}", *points[-1])
        hpa = partial(rule_named, "hpa", {"target": 0.8})
        base = _point("hpa-80", hpa, PLANTS[theirs], courses, options)
        flat |= _flat(f"{theirs}_hpa_80", *base)
        lines += [f"\n**Penstock on {ours}, HPA-80 on {theirs}**\n"]
        lines += ["| policy | late | over floor | resizes a day |", "|---|--:|--:|--:|"]
        for point, resizes in [*points, base]:
            lines.append(
                f"| {point.label} | {point.late_share:.3%} | {point.over_floor:.3f} | {resizes:.0f} |"
            )
        lines.append(_across([point for point, _ in points], base[0], f"{ours}_", flat))
    return lines


def _courses(plant: str, options: argparse.Namespace) -> list[tuple[str, Course]]:
    chosen = [trace for trace in traces_at_hand() if not options.trace or trace.name in options.trace]
    contests = [(t.name, Contest(t, PLANTS[plant], seed=options.seed, days=options.days)) for t in chosen]
    return [(name, shortened(contest.course(), WARM_S)) for name, contest in contests]


def _point(
    label: str,
    rule: Callable[[], Rule[Any]],
    plant: Plant,
    courses: Sequence[tuple[str, Course]],
    options: argparse.Namespace,
) -> tuple[Point, float]:
    """The mean over the traces, and resizes a day."""
    rows = []
    for name, course in courses:
        # Without a given forecast: the planner's own is what is measured, and runs are much shorter.
        row = run(replace(rule(), foresees=False), plant, course, options.seed)
        rows.append(row)
        print(
            f"{label:24} {name:20} {row.late_share:8.3%} {row.over_floor:6.3f} {row.resizes:5.0f} resizes "
            f"{row.reversals:4.0f} reversals",
            flush=True,
        )
    point = pooled(label, [(row.late_share, row.over_floor) for row in rows])
    return point, fmean(row.resizes for row in rows) / options.days


def _flat(name: str, point: Point, resizes: float) -> dict[str, float]:
    return {
        f"{name}_late_share": point.late_share,
        f"{name}_over_floor": point.over_floor,
        f"{name}_resizes_a_day": resizes,
    }


def _across(points: Sequence[Point], base: Point, key: str, flat: dict[str, float]) -> str:
    hull = lower_hull(points)
    cost, late = cost_at(hull, base.late_share), late_at(hull, base.over_floor)
    said = []
    if cost is not None:
        flat[f"{key}gpu_hours_over_hpa_at_its_late_share"] = cost / base.over_floor
        said.append(f"At HPA-80's late share: {cost / base.over_floor:.3f}x its GPU-hours.")
    if late is not None and late > 0:
        flat[f"{key}late_share_over_hpa_at_its_gpu_hours"] = late / base.late_share
        said.append(f"At HPA-80's GPU-hours: 1/{base.late_share / late:.0f} of its late share.")
    for over in (1.12, 1.20):
        there = late_at(hull, over)
        if there is not None:
            flat[f"{key}late_share_at_{over:.2f}_floor"] = there
            said.append(f"{there:.3%} late at {over:.2f}x floor.")
    return "\n" + " ".join(said)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frontier", action="store_true", help="also run the simulator on every trace")
    parser.add_argument("--days", type=float, default=7.0, help="days scored after a week of warm-up")
    parser.add_argument("--trace", action="append", help="only the trace of this name; repeatable")
    parser.add_argument(
        "--target", action="append", type=float, help="only this late_share_target; repeatable"
    )
    parser.add_argument("--plant", action="append", help="only where Penstock runs on this one; repeatable")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    flat: dict[str, float] = {}
    lines = [speed(flat)]
    print(lines[0], flush=True)
    if options.frontier:
        lines += frontier(options, flat)
        print("\n".join(lines[1:]))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "planner.json").write_text(json.dumps(flat, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "planner.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
