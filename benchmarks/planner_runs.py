"""Runs of policies on traces, each kept on disk: an hour of simulation can be ended and taken up again.

A run is kept under what was asked for, not under the code that made it: delete `planner_runs.jsonl` after a
change that should change figures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.planner_parts import WARM_S, shortened
from benchmarks.plants import PLANTS
from services.simulator import layout as at
from services.simulator.contest import Contest, run_policy
from services.simulator.figures import MINUTES_A_DAY, RESAMPLES
from services.simulator.floor import floor_gpu_hours
from services.simulator.forecasters import forecaster_named
from services.simulator.policies import choose
from services.simulator.trace import Trace

ALL_WORKERS = "static-max:utilisation=0.01"
"""A pool of all workers that there may be, always: what is late there no policy can avoid."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run to make."""

    trace: str
    policy: str
    plant: str
    days: float
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy on one trace."""

    late_share: float
    over_floor: float
    resizes_a_day: float
    reversals_a_day: float
    accumulated_lag: float
    downtime_s: float
    """Seconds without training because of resizes, and worker-seconds lost to them."""
    over_slo_share: float
    gpu_utilisation: float
    p50_delay_s: float
    late_by_day: tuple[float, ...]
    trained_by_day: tuple[float, ...]


def outcomes_of(wanted: Sequence[Wanted], traces: Sequence[Trace], *, kept: Path, jobs: int) -> list[Outcome]:
    """Every run wanted, in order; those made before are read from `kept`, new ones are added to it."""
    known = dict(_read(kept))
    missing = [one for one in dict.fromkeys(wanted) if one not in known]
    by_name = {trace.name: trace for trace in traces}
    with ProcessPoolExecutor(jobs) as pool, kept.open("a", encoding="utf-8") as file:
        running = {pool.submit(played, one, by_name[one.trace]): one for one in missing}
        for done in as_completed(running):
            one, outcome = running[done], done.result()
            known[one] = outcome
            file.write(json.dumps({"wanted": asdict(one), "outcome": asdict(outcome)}) + "\n")
            file.flush()
            print(
                f"{one.plant:12} {one.policy:34} {one.trace:18} {outcome.late_share:8.3%} late "
                f"{outcome.over_floor:6.3f} x floor {outcome.resizes_a_day:5.0f} resizes a day",
                flush=True,
            )
    return [known[one] for one in wanted]


def _read(kept: Path) -> Iterator[tuple[Wanted, Outcome]]:
    if not kept.exists():
        return
    for line in kept.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        outcome = row["outcome"]
        for field in ("late_by_day", "trained_by_day"):
            outcome[field] = tuple(outcome[field])
        yield Wanted(**row["wanted"]), Outcome(**outcome)


def played(wanted: Wanted, trace: Trace) -> Outcome:
    """The run, made; with the forecasts that `penstock backtest` gives it."""
    contest = Contest(trace, PLANTS[wanted.plant], seed=wanted.seed, days=wanted.days)
    course, policy = shortened(contest.course(), WARM_S), choose(wanted.policy)
    figures, run = run_policy(contest, policy, course, forecaster_named(policy.forecaster or "light"))
    edges = np.arange(0, max(len(run.minutes) // MINUTES_A_DAY, 1)) * MINUTES_A_DAY
    by_day = np.add.reduceat(run.minutes, edges, axis=0)
    return Outcome(
        late_share=figures.late_share,
        over_floor=figures.gpu_hours / floor_gpu_hours(contest.plant, course.scored),
        resizes_a_day=figures.resizes / wanted.days,
        reversals_a_day=figures.reversals / wanted.days,
        accumulated_lag=figures.accumulated_lag,
        downtime_s=figures.downtime_s + figures.worker_s_lost,
        over_slo_share=figures.over_slo_share,
        gpu_utilisation=figures.gpu_utilisation,
        p50_delay_s=figures.p50_delay_s,
        late_by_day=tuple(by_day[:, at.M_LATE].tolist()),
        trained_by_day=tuple(by_day[:, at.M_TRAINED].tolist()),
    )


def interval(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """90 % of the mean late share over traces: days drawn with replacement within each trace."""
    dice = np.random.default_rng(4)
    drawn = []
    for one in outcomes:
        late, trained = np.array(one.late_by_day), np.array(one.trained_by_day)
        chosen = dice.integers(0, len(late), (RESAMPLES, len(late)))
        drawn.append(late[chosen].sum(axis=1) / np.maximum(trained[chosen].sum(axis=1), 1e-9))
    low, high = np.quantile(np.mean(drawn, axis=0), (0.05, 0.95))
    return float(low), float(high)


def mean_of(outcomes: Sequence[Outcome], field: str) -> float:
    """The mean over traces, each with the same weight."""
    return fmean(float(getattr(one, field)) for one in outcomes)
