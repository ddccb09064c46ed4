"""What the planner promises, and what Kale's paper claims: `make bench-planner-claims`.

The error budget: whether `late_share_target` is kept, by traces pooled and a week each. Kale's own claims:
accumulated lag, downtime and violations against HPA-80, utilisation and median delay against a pool of
fixed size, for `kale` and `penstock`. Writes `benchmarks/results/planner_claims.md` and `.json`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from benchmarks.plants import PLANTS
from benchmarks.policies import RESULTS, traces_at_hand
from services.simulator import layout as at
from services.simulator.contest import Contest, run_policy
from services.simulator.figures import MINUTES_A_DAY, RESAMPLES, Figures
from services.simulator.floor import floor_gpu_hours
from services.simulator.forecasters import forecaster_named
from services.simulator.policies import choose
from services.simulator.trace import Floats, Trace

TARGETS = (0.002, 0.01, 0.05)
KEPT = 1.2
"""The pooled late share may be this many times the target."""
CONTENDERS: Mapping[str, tuple[str, str]] = {
    "hpa-80": ("hpa:target=0.8", "cooperative"),
    "static-mean": ("static-mean:utilisation=0.9", "cooperative"),
    "kale": ("kale", "rebalance-5"),
    "penstock": ("penstock:late_share_target=0.002", "hot-join"),
}
"""Each on the plant that its own system gives it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy on one trace."""

    figures: Figures
    over_floor: float
    days: Floats
    """Samples late and samples trained, by day."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run to make."""

    trace: Trace
    policy: str
    plant: str
    days: float
    seed: int


def played(wanted: Wanted) -> Outcome:
    """The run, made."""
    contest = Contest(wanted.trace, PLANTS[wanted.plant], seed=wanted.seed, days=wanted.days)
    course = contest.course()
    figures, run = run_policy(contest, choose(wanted.policy), course, forecaster_named("light"))
    edges = np.arange(0, max(len(run.minutes) // MINUTES_A_DAY, 1)) * MINUTES_A_DAY
    by_day = np.add.reduceat(run.minutes, edges, axis=0)
    floor = floor_gpu_hours(contest.plant, course.scored)
    return Outcome(figures, figures.gpu_hours / floor, by_day[:, [at.M_LATE, at.M_TRAINED]])


def budget(runs: Mapping[float, Sequence[Outcome]], flat: dict[str, float]) -> list[str]:
    """Whether each target was kept."""
    lines = [
        "",
        "| target | late, pooled | 90 % interval | times target | over floor |",
        "|--:|--:|--:|--:|--:|",
    ]
    for target, outcomes in runs.items():
        late = fmean(one.figures.late_share for one in outcomes)
        over = fmean(one.over_floor for one in outcomes)
        low, high = _interval(outcomes)
        flat |= {
            f"target_{target:g}_late_share": late,
            f"target_{target:g}_late_share_low": low,
            f"target_{target:g}_late_share_high": high,
            f"target_{target:g}_limit": KEPT * target,
            f"target_{target:g}_over_floor": over,
        }
        lines.append(
            f"| {target:.1%} | {late:.3%} | {low:.3%} to {high:.3%} | {late / target:.2f} | {over:.3f} |"
        )
    return lines


def _interval(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """Days drawn with replacement within each trace; the mean over traces."""
    dice = np.random.default_rng(4)
    drawn = []
    for one in outcomes:
        chosen = dice.integers(0, len(one.days), (RESAMPLES, len(one.days)))
        late, trained = np.moveaxis(one.days[chosen].sum(axis=1), 1, 0)
        drawn.append(late / np.maximum(trained, 1e-9))
    low, high = np.quantile(np.mean(drawn, axis=0), (0.05, 0.95))
    return float(low), float(high)


def claims(runs: Mapping[str, Sequence[Outcome]], flat: dict[str, float]) -> list[str]:
    """Kale's table, for each contender."""
    columns: Mapping[str, Callable[[Figures], float]] = {
        "accumulated_lag": lambda one: one.accumulated_lag,
        "downtime_s": lambda one: one.downtime_s + one.worker_s_lost,
        "violation_rate": lambda one: one.over_slo_share,
        "gpu_utilisation": lambda one: one.gpu_utilisation,
        "p50_delay_s": lambda one: one.p50_delay_s,
        "late_share": lambda one: one.late_share,
    }
    lines = [
        "",
        "| policy | over floor | accumulated lag | to HPA-80 | downtime + worker-s lost | to HPA-80 "
        "| time over the SLO | GPU use | p50 delay |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    base: dict[str, float] = {}
    for name, outcomes in runs.items():
        mean = {key: fmean(of(one.figures) for one in outcomes) for key, of in columns.items()}
        base = base or mean
        over = fmean(one.over_floor for one in outcomes)
        flat |= {f"{name}_{key}": value for key, value in mean.items()} | {f"{name}_over_floor": over}
        lag, down = _change(mean, base, "accumulated_lag"), _change(mean, base, "downtime_s")
        lines.append(
            f"| {name} | {over:.2f} | {mean['accumulated_lag']:.3g} | {lag} "
            f"| {mean['downtime_s']:,.0f} s | {down} "
            f"| {mean['violation_rate']:.2%} | {mean['gpu_utilisation']:.0%} | {mean['p50_delay_s']:.1f} s |"
        )
    return lines


def _change(mean: Mapping[str, float], base: Mapping[str, float], key: str) -> str:
    return f"{mean[key] / base[key] - 1:+.1%}" if base[key] > 0 else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--days", type=float, default=7.0, help="days scored after a week of warm-up")
    parser.add_argument("--trace", action="append", help="only the trace of this name; repeatable")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    traces = [trace for trace in traces_at_hand() if not options.trace or trace.name in options.trace]
    told = f"{len(traces)} traces, {options.days:g} days each, seed {options.seed}"
    flat: dict[str, float] = {}

    def all_traces(policy: str, plant: str) -> list[Outcome]:
        wanted = [Wanted(trace, policy, plant, options.days, options.seed) for trace in traces]
        outcomes = list(pool.map(played, wanted))
        print(f"{policy} on {plant}: done", flush=True)
        return outcomes

    with ProcessPoolExecutor(options.jobs) as pool:
        by_target = {
            target: all_traces(f"penstock:late_share_target={target:g}", "hot-join") for target in TARGETS
        }
        by_name = {
            name: by_target[0.002] if name == "penstock" else all_traces(policy, plant)
            for name, (policy, plant) in CONTENDERS.items()
        }
    lines = [told, *budget(by_target, flat), *claims(by_name, flat)]
    print("\n".join(lines))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "planner_claims.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (RESULTS / "planner_claims.json").write_text(json.dumps(flat, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
