"""A job without a past: `make bench-first-hours`.

The first hours of every trace at hand from several of its moments, with nothing known before: no history, no
throughput but the stated one. Penstock is on `hot-join`, HPA on `cooperative`, as in the other comparisons.
Writes `benchmarks/results/first_hours.md` and `.json`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from benchmarks.plants import PLANTS
from benchmarks.policies import RESULTS, traces_at_hand
from services.simulator.contest import Contest, run_policy
from services.simulator.floor import floor_gpu_hours
from services.simulator.forecasters import forecaster_named
from services.simulator.policies import choose
from services.simulator.trace import Trace

POLICIES = (
    ("penstock:late_share_target=0.002", "hot-join"),
    ("penstock:late_share_target=0.01", "hot-join"),
    ("reactive", "hot-join"),
    ("hpa:target=0.8", "cooperative"),
)
BEGINNINGS_DAYS = (2.35, 3.6, 5.8, 6.1)
"""After the trace's own beginning: other hours of other days."""
WARM_DAYS = 0.002
"""The shortest warm-up that there is: the pool starts at 80 %, and nothing is known."""


@dataclass(frozen=True, slots=True)
class Row:
    """One policy in the first hours of one beginning."""

    late_share: float
    over_floor: float
    resizes_a_day: float


def begun(trace: Trace, after_days: float) -> Trace:
    """The trace from there on."""
    kept = trace.starts_s - trace.starts_s[0] >= after_days * 86_400 - 1e-6
    return replace(trace, starts_s=np.asarray(trace.starts_s[kept]), rates=np.asarray(trace.rates[kept]))


def played(trace: Trace, policy: str, plant: str, *, hours: float, seed: int) -> Row:
    """One run."""
    bare = PLANTS[plant].model_copy(update={"warmup_days": WARM_DAYS})
    contest = Contest(trace, bare, seed=seed, days=hours / 24)
    course = contest.course()
    figures, _ = run_policy(contest, choose(policy), course, forecaster_named("light"))
    over_floor = figures.gpu_hours / floor_gpu_hours(bare, course.scored)
    return Row(figures.late_share, over_floor, figures.resizes * 24 / hours)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--hours", type=float, default=6.0, help="hours scored, from the first minute on")
    parser.add_argument("--trace", action="append", help="only the trace of this name; repeatable")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    traces = [trace for trace in traces_at_hand() if not options.trace or trace.name in options.trace]
    beginnings = [
        begun(trace, days)
        for trace in traces
        for days in BEGINNINGS_DAYS
        if trace.span_s > days * 86_400 + options.hours * 3600
    ]
    lines = [
        f"first {options.hours:g} hours of {len(beginnings)} beginnings of {len(traces)} traces",
        "",
        "| policy | late | over floor | resizes a day |",
        "|---|--:|--:|--:|",
    ]
    flat: dict[str, float] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for policy, plant in POLICIES:
            running = [
                pool.submit(played, trace, policy, plant, hours=options.hours, seed=options.seed)
                for trace in beginnings
            ]
            rows = [run.result() for run in running]
            late, over = fmean(row.late_share for row in rows), fmean(row.over_floor for row in rows)
            resizes = fmean(row.resizes_a_day for row in rows)
            flat |= {
                f"{policy}_late_share": late,
                f"{policy}_over_floor": over,
                f"{policy}_resizes_a_day": resizes,
            }
            lines.append(f"| {policy} | {late:.3%} | {over:.3f} | {resizes:.0f} |")
    print("\n".join(lines))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "first_hours.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (RESULTS / "first_hours.json").write_text(json.dumps(flat, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
