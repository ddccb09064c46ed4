"""The planner's speed and its frontier against HPA: `python -m benchmarks.planner` (or `make bench-planner`).

Without arguments only the speed, in seconds; `--frontier` runs the simulator on every trace at hand, which
takes an hour on two cores and can be taken up again where it ended. Writes `benchmarks/results/planner.md`
and `planner.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from benchmarks.planner_runs import ALL_WORKERS, Outcome, Wanted, mean_of, outcomes_of
from benchmarks.policies import RESULTS, traces_at_hand
from estimator.planner import rollout
from estimator.planner.traffic_model import EACH, EDGES
from services.simulator.hull import Point, cost_at, late_at, lower_hull

JOBS, STEPS, STEP_S, WORKERS, PATHS = 1000, 30, 60.0, 64, EACH * (len(EDGES) - 1)
TARGETS = (0.0005, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05)
HPA_TARGETS = (0.6, 0.7, 0.8, 0.9)
PAIRS = (
    ("hot-join", "cooperative"), ("rebalance-5", "rebalance-5"), ("restart", "restart"),
    ("slow-start", "slow-start"), ("scarce", "scarce"), ("gusty", "gusty"),
)  # fmt: skip
"""Where Penstock runs, and where HPA runs: system against system, then both on one plant."""
Runs = Callable[[str, str], list[Outcome]]
"""The outcomes of a policy on a plant, a trace each."""


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


@dataclass(frozen=True, slots=True)
class Setting:
    """A policy at one setting, all traces pooled."""

    point: Point
    avoidable: Point
    """Late shares less what is late with all workers that there may be."""
    within: Point
    """Over those traces alone on which all workers that there may be are never late."""
    resizes: float
    reversals: float


def frontier(runs: Runs, options: argparse.Namespace, flat: dict[str, float]) -> list[str]:
    """Penstock at every target against HPA at its own, all traces pooled."""
    lines = []
    penstock = f"penstock@{options.forecaster}" if options.forecaster else "penstock"
    for ours, theirs in PAIRS:
        if options.plant and ours not in options.plant:
            continue
        everybody = runs(ALL_WORKERS, "hot-join")
        beyond = mean_of(everybody, "late_share")
        mine = [
            _setting(
                f"penstock at {target:g}",
                runs(f"{penstock}:late_share_target={target:g}", ours),
                everybody,
            )
            for target in options.target or TARGETS
        ]
        hpa = [
            _setting(f"hpa-{100 * target:g}", runs(f"hpa:target={target:g}", theirs), everybody)
            for target in HPA_TARGETS
        ]
        lines += [f"\n**Penstock on {ours}, HPA on {theirs}**\n"]
        lines += [f"With all workers always, {beyond:.3%} is late.\n"]
        lines += ["| policy | late | of it avoidable | over floor | resizes a day | reversals a day |"]
        lines += ["|---|--:|--:|--:|--:|--:|"]
        for place, one in zip((ours,) * len(mine) + (theirs,) * len(hpa), (*mine, *hpa), strict=True):
            flat |= _flat(f"{place}_{one.point.label}", one)
            lines.append(
                f"| {one.point.label} | {one.point.late_share:.3%} | {one.avoidable.late_share:.3%} "
                f"| {one.point.over_floor:.3f} | {one.resizes:.0f} | {one.reversals:.0f} |"
            )
        base = hpa[HPA_TARGETS.index(0.8)]
        across = _across([one.point for one in mine], base.point, f"{ours}_", flat)
        lines.append(f"\nAll late samples: {across}")
        across = _across([one.avoidable for one in mine], base.avoidable, f"{ours}_avoidable_", flat)
        lines.append(f"\nAvoidable ones: {across}")
        across = _across([one.within for one in mine], base.within, f"{ours}_within_", flat)
        many = sum(one.late_share == 0 for one in everybody)
        lines.append(f"\nThe {many} of {len(everybody)} traces that all workers together carry: {across}")
        at_one = [cost_at(lower_hull([one.avoidable for one in who]), 0.01) for who in (mine, hpa)]
        if at_one[0] is not None and at_one[1] is not None:
            flat[f"{ours}_gpu_hours_over_hpa_at_1_percent"] = at_one[0] / at_one[1]
            lines.append(f"\nAt 1 % avoidably late: {at_one[0]:.3f} x floor, HPA {at_one[1]:.3f}.")
    return lines


def _setting(label: str, outcomes: Sequence[Outcome], everybody: Sequence[Outcome]) -> Setting:
    late, over = mean_of(outcomes, "late_share"), mean_of(outcomes, "over_floor")
    beyond = mean_of(everybody, "late_share")
    within = [one for one, most in zip(outcomes, everybody, strict=True) if most.late_share == 0]
    return Setting(
        Point(label, late, over),
        Point(label, max(late - beyond, 0.0), over),
        Point(label, mean_of(within, "late_share"), mean_of(within, "over_floor")),
        mean_of(outcomes, "resizes_a_day"),
        mean_of(outcomes, "reversals_a_day"),
    )


def _flat(name: str, one: Setting) -> dict[str, float]:
    key = name.replace(" ", "_")
    return {
        f"{key}_late_share": one.point.late_share,
        f"{key}_avoidable_late_share": one.avoidable.late_share,
        f"{key}_over_floor": one.point.over_floor,
        f"{key}_resizes_a_day": one.resizes,
        f"{key}_reversals_a_day": one.reversals,
    }


def _across(points: Sequence[Point], base: Point, key: str, flat: dict[str, float]) -> str:
    hull = lower_hull(points)
    cost, late = cost_at(hull, base.late_share), late_at(hull, base.over_floor)
    said = []
    if cost is not None:
        flat[f"{key}gpu_hours_over_hpa_at_its_late_share"] = cost / base.over_floor
        said.append(f"at HPA-80's late share {cost / base.over_floor:.3f}x its GPU-hours;")
    if late is not None and late > 0:
        flat[f"{key}late_share_over_hpa_at_its_gpu_hours"] = late / base.late_share
        said.append(f"at HPA-80's GPU-hours 1/{base.late_share / late:.0f} of its late share;")
    for over in (1.12, 1.20):
        there = late_at(hull, over)
        if there is not None:
            flat[f"{key}late_share_at_{over:.2f}_floor"] = there
            said.append(f"{there:.3%} at {over:.2f}x floor;")
    return " ".join(said).rstrip(";") + "."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--frontier", action="store_true", help="also run the simulator on every trace")
    parser.add_argument("--days", type=float, default=7.0, help="days scored after a week of warm-up")
    parser.add_argument("--trace", action="append", help="only the trace of this name; repeatable")
    parser.add_argument(
        "--target", action="append", type=float, help="only this late_share_target; repeatable"
    )
    parser.add_argument(
        "--forecaster", help="whose forecasts Penstock is given: `served`, say; `light` if not"
    )
    parser.add_argument("--plant", action="append", help="only where Penstock runs on this one; repeatable")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    flat: dict[str, float] = {}
    lines = [speed(flat)]
    print(lines[0], flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    if options.frontier:
        lines += frontier(partial(_runs, options), options, flat)
        print("\n".join(lines[1:]))
    (RESULTS / "planner.json").write_text(json.dumps(flat, indent=1) + "\n", encoding="utf-8")
    (RESULTS / "planner.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _runs(options: argparse.Namespace, policy: str, plant: str) -> list[Outcome]:
    traces = [trace for trace in traces_at_hand() if not options.trace or trace.name in options.trace]
    wanted = [Wanted(trace.name, policy, plant, options.days, options.seed) for trace in traces]
    return outcomes_of(wanted, traces, kept=RESULTS / "planner_runs.jsonl", jobs=options.jobs)


if __name__ == "__main__":
    main()
