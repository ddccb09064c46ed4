"""The planner's speed and its frontier against HPA: `python -m benchmarks.planner` (or `make bench-planner`).

Without arguments only the speed, in seconds; `--frontier` runs the simulator on every trace at
hand, which takes minutes a trace. Writes `benchmarks/results/planner.md`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, cast

import numpy as np

from benchmarks.plants import PLANTS
from benchmarks.policies import RESULTS, traces_at_hand
from estimator.planner import rollout
from services.simulator.contest import Contest, Judged, judge
from services.simulator.hull import Point, cost_at, late_at, lower_hull, pooled
from services.simulator.policies import PolicyChoice, choose

JOBS, STEPS, STEP_S, WORKERS, PATHS = 1000, 30, 60.0, 64, 44
TARGETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
PAIRS = (("hot-join", "cooperative"), ("rebalance-5", "rebalance-5"))
"""Where Penstock runs, and where HPA runs: system against system, then both on one plant."""


def speed() -> str:
    """A plan for each of a thousand jobs, every size from 1 to 64 tried, on one core."""
    dice = np.random.default_rng(1)
    jobs = [_job(dice) for _ in range(JOBS)]
    rollout.roll(*jobs[0])  # compiled before the clock runs
    took_s = _timed(lambda: [rollout.roll(*job) for job in jobs])
    plain_s = _timed(lambda: _plainly(jobs[:2])) / 2 * JOBS
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
        30, 32, float(dice.uniform(0, 1e5)), 30.0, STEP_S, 60.0, 180.0, 0.0,
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


def frontier(options: argparse.Namespace) -> list[str]:
    """Penstock at every target against HPA-80, all traces pooled."""
    lines = []
    for ours, theirs in PAIRS:
        turned = [choose(f"penstock:late_share_target={target:g}") for target in options.target or TARGETS]
        points = _points(ours, turned, options)
        base, base_resizes = _points(theirs, [choose("hpa:target=0.8")], options)[0]
        lines.append(
            f"\n**Penstock on {ours}, HPA-80 on {theirs}**\n\n| policy | late | over floor | resizes |"
        )
        lines.append("|---|--:|--:|--:|")
        for point, resizes in [*points, (base, base_resizes)]:
            lines.append(
                f"| {point.label} | {point.late_share:.3%} | {point.over_floor:.3f} | {resizes:,.0f} |"
            )
        lines.append(_across([point for point, _ in points], base))
    return lines


def _points(
    plant: str, choices: Sequence[PolicyChoice], options: argparse.Namespace
) -> list[tuple[Point, float]]:
    found: dict[str, list[Judged]] = {}
    for trace in traces_at_hand():
        if options.trace and trace.name not in options.trace:
            continue
        contest = Contest(trace, PLANTS[plant], seed=options.seed, days=options.days)
        verdict = judge(contest, choices, with_oracle=False, jobs=options.jobs)
        for judged in verdict.judged:
            found.setdefault(judged.choice.label, []).append(judged)
            figures = judged.figures
            print(
                f"{plant:12} {trace.name:20} {judged.choice.label:34} {figures.late_share:8.3%} "
                f"{judged.over_floor:6.3f} {figures.resizes:5} resizes {figures.reversals:4} reversals",
                flush=True,
            )
    return [
        (
            pooled(label, [(judged.figures.late_share, judged.over_floor) for judged in every]),
            fmean(judged.figures.resizes for judged in every),
        )
        for label, every in found.items()
    ]


def _across(points: Sequence[Point], base: Point) -> str:
    hull = lower_hull(points)
    cost, late = cost_at(hull, base.late_share), late_at(hull, base.over_floor)
    hours = "not reached" if cost is None else f"{cost / base.over_floor:.2f}x its GPU-hours"
    shares = (
        "not reached" if late is None or late <= 0 else f"1/{base.late_share / late:.0f} of its late share"
    )
    at = {over: late_at(hull, over) for over in (1.12, 1.20)}
    rest = ", ".join(f"{late:.3%} late at {over:.2f}x floor" for over, late in at.items() if late is not None)
    return f"\nAt HPA-80's late share: {hours}. At HPA-80's GPU-hours: {shares}. {rest}."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frontier", action="store_true", help="also run the simulator on every trace")
    parser.add_argument("--days", type=float, default=7.0, help="days scored after a week of warm-up")
    parser.add_argument("--trace", action="append", help="only the trace of this name; repeatable")
    parser.add_argument(
        "--target", action="append", type=float, help="only this late_share_target; repeatable"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    lines = [speed()]
    print(lines[0], flush=True)
    if options.frontier:
        lines += frontier(options)
        print("\n".join(lines[1:]))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "planner.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
