"""Every policy in the real loop, one after the other, beside its simulation: `make bench-live`.

Same seed, so the same traffic; Kafka, parameter server, workers and controller are real processes.
Each run is run up first: a pool set by hand works off what came before it and is then as large as the
traffic needs, so that no policy is judged by a start from nothing; figures count from there on, and
the simulation starts there. The simulator is told the traffic's shape and the plant as the live run showed
it, nothing of what the run came to. It plays a whole day's length for each day, so times are stretched to
life's.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.sim_to_real import Recorder, plant_of
from estimator.rules import rule_named
from estimator.rules.tempo import OPTION
from services.demo.report import DemoReport
from services.demo.run import run_demo
from services.demo.scenario import HISTORY_DAYS, START_S, Scenario
from services.simulator.arrivals import Arrivals
from services.simulator.figures import Figures, figures_of
from services.simulator.forecasters import light
from services.simulator.plant import Plant
from services.simulator.run import Course, simulate
from services.simulator.trace import Floats

POLICIES = ("static-max", "static-mean", "hpa", "autopilot", "madu", "kale", "reactive", "penstock")
FIGURES: Mapping[str, tuple[str, str]] = {
    "accumulated_lag": ("accumulated lag, sample-s", ",.0f"),
    "late_share": ("late", ".2%"),
    "downtime_s": ("no training, s", ".1f"),
    "gpu_hours": ("GPU-hours", ".3f"),
    "gpu_utilisation": ("GPU use", ".0%"),
    "resizes": ("resizes", ".0f"),
}
"""Live and simulated."""


def main() -> None:
    """Play, predict, tabulate, write. Policies not played this time keep what the file says of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="of each policy")
    parser.add_argument("--run-up", type=float, default=40.0, help="seconds before the figures count")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policies", default=",".join(POLICIES), help="in this order")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/live.json"))
    parser.add_argument("--simulate-only", action="store_true", help="leave the live figures as they are")
    given = parser.parse_args()
    figures = _earlier(given.out, minutes=given.minutes, seed=given.seed, run_up_s=given.run_up)
    for policy in given.policies.split(","):
        scenario = Scenario(minutes=given.minutes, seed=given.seed, rule=policy, run_up_s=given.run_up)
        figures |= _simulated(scenario, figures) if given.simulate_only else measured(scenario)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    Console(width=150).print(table(figures))


def measured(scenario: Scenario) -> dict[str, float]:
    """One policy's figures, live and simulated, by names that say which."""
    recorder = Recorder()
    report = run_demo(scenario, recorder, kafka=None, redis=None)
    plant = recorder.plant(scenario)
    named = {f"live_{name}": float(getattr(report, name)) for name in FIGURES}
    named |= {"startup_s": plant.startup_typical_s, "rate_per_worker": plant.rate_per_worker}
    # Five minutes of it: on a machine that others use, this tells how much is to be made of the rest.
    named |= _quality(report) | {"load_average": os.getloadavg()[1]}
    figures = {f"{scenario.rule}_{name}": value for name, value in named.items()}
    return figures | _simulated(scenario, figures)


def _simulated(scenario: Scenario, measured: Mapping[str, float]) -> dict[str, float]:
    """What the simulator says, on the plant that the live run showed."""
    speed, startup_s = (measured[f"{scenario.rule}_{name}"] for name in ("rate_per_worker", "startup_s"))
    plant = plant_of(scenario, rate_per_worker=speed, startup_s=startup_s)
    foretold = predicted(scenario, plant)
    return {f"{scenario.rule}_simulated_{name}": value for name, value in foretold.items()}


def predicted(scenario: Scenario, plant: Plant) -> dict[str, float]:
    """What the simulator says of this scenario on this plant, in the live run's units."""
    stretch = scenario.speed_up
    options = {name: v * stretch if name.endswith("_s") else v for name, v in scenario.rule_options.items()}
    options.pop(OPTION, None)  # here the rule is in its own time
    rule = replace(rule_named(scenario.rule, options), period_s=None)  # it is asked every tick, as live
    stretched = Plant.model_validate(
        plant.model_dump()
        | {
            "rate_per_worker": plant.rate_per_worker / stretch,
            "startup_s": plant.startup_typical_s * stretch,
            "slo_s": plant.slo_s * stretch,
            "drain_s": plant.drain_s * stretch,
            "tick_s": max(1, round(plant.tick_s * stretch)),
        }
    )
    course = _course(scenario)
    run = simulate(rule, stretched, course, seed=scenario.seed, forecaster=light())
    return _in_wall_time(figures_of(run, stretched), stretch)


def _course(scenario: Scenario) -> Course:
    """The days before the start, minute by minute, and the run, second by second, in the time of life."""
    seconds = int(scenario.minutes * scenario.speed_up) * 60
    past = START_S + 60.0 * np.arange(-round(HISTORY_DAYS * 1440), 0, dtype=np.float64) + 30.0
    ahead = START_S + np.arange(seconds, dtype=np.float64) + 0.5
    arrivals = _rates(scenario, ahead)
    if not scenario.run_up_s:
        # A live run then starts with an empty pool, the twin with one for its first minute.
        arrivals[:60] = 0.0
    return Course(_rates(scenario, past), Arrivals(START_S, arrivals), 0)


def _rates(scenario: Scenario, at_s: Floats) -> Floats:
    return scenario.shape.rates(at_s) / scenario.speed_up


def _in_wall_time(figures: Figures, stretch: float) -> dict[str, float]:
    times = {"accumulated_lag", "downtime_s", "gpu_hours"}
    return {name: float(getattr(figures, name)) / (stretch if name in times else 1.0) for name in FIGURES}


def _quality(report: DemoReport) -> dict[str, float]:
    """As far as the workers told of it."""
    known = {
        "auc": report.auc,
        "hidden_auc": report.hidden_auc,
        "sample_age_s": report.sample_age_s,
        "worst_lag_s": report.worst_lag_s,
        "trained": float(report.trained),
        "lost": float(report.lost),
    }
    return {f"live_{name}": float(value) for name, value in known.items() if value is not None}


def _earlier(path: Path, *, minutes: float, seed: int, run_up_s: float) -> dict[str, float]:
    """What the file holds of the same run; nothing where it is of another."""
    run = {"minutes": minutes, "seed": float(seed), "run_up_s": run_up_s}
    if path.exists():
        figures: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
        if {name: figures.get(name) for name in run} == run:
            return figures
    return run


def table(figures: Mapping[str, float]) -> Table:
    """A row for each policy: live, and in brackets simulated."""
    shown = Table(title=f"{figures['minutes']:g} minutes of each policy: live (simulated)")
    shown.add_column("policy")
    for title, _ in FIGURES.values():
        shown.add_column(title, justify="right")
    shown.add_column("AUC (hidden model)", justify="right")
    for policy in POLICIES:
        if f"{policy}_live_gpu_hours" not in figures:
            continue
        cells = [
            f"{figures[f'{policy}_live_{name}']:{form}} ({figures[f'{policy}_simulated_{name}']:{form}})"
            for name, (_, form) in FIGURES.items()
        ]
        auc, hidden = (figures.get(f"{policy}_live_{name}", float("nan")) for name in ("auc", "hidden_auc"))
        shown.add_row(policy, *cells, f"{auc:.3f} ({hidden:.3f})")
    return shown


if __name__ == "__main__":
    main()
