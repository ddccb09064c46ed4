"""How far off C(n) is: `python -m benchmarks.throughput` (or `make bench-throughput`).

Prints the tables of docs/throughput.md and writes `benchmarks/results/throughput.json`, flat.
Every world has a C(n) that the estimator's own formulae did not make.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.parameter_server import ParameterServer
from benchmarks.throughput_costs import costs
from benchmarks.throughput_peers import PEERS
from benchmarks.throughput_worlds import (
    CurveWorld,
    QueueWorld,
    Telemetry,
    World,
    curve_worlds,
    queue_worlds,
    told,
)
from estimator.throughput import ThroughputModel, ThroughputWindow
from estimator.throughput.gpu_types import GpuTypes, Guess

RESULTS = Path("benchmarks/results/throughput.json")
FURTHER = (1.25, 1.5, 2.0)
SIZES = (4, 6, 8, 12, 16, 24)
QUEUE_SIZES = (4, 8, 16, 24)
LOADS = (0.5, 0.8, 1.0)
FIVE = (0.4, 0.55, 0.7, 0.85)
"""The other sizes of five, as shares of the largest."""
OTHER_LOADS = (0.65, 0.8, 0.5, 0.95)
GUESS = 1.3
"""The operator's guess of a lone worker's rate, over the truth."""
UNSHOWN = ("retrograde", "input-cpu")
"""Families whose bottleneck no telemetry shows before it binds: judged apart."""


@dataclass(frozen=True, slots=True)
class Case:
    """One world at one size and load: what is seen, once and at five sizes, and the truth further out."""

    family: str
    workers: int
    load: float
    seen: dict[str, list[ThroughputWindow]]
    """`one`, `five`, and `saturated`: five with every window at full load."""
    truth: dict[float, float]
    lone_rate: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything, print the tables, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a world a family, for a look in seconds")
    quick = parser.parse_args(arguments).quick
    figures: dict[str, float] = {}
    cases = list(_cases(quick))
    for telemetry in Telemetry:
        figures.update(_errors(cases, telemetry))
        print(_table(figures, telemetry))
    figures.update(_peer_errors(cases))
    print(_peer_table(figures))
    figures.update(_days(quick))
    print(_day_table(figures))
    figures.update(_borrowing())
    figures.update(costs())
    print(_rest(figures))
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for what, end in (("C", "/1.5x/p95"), ("C_low", "/1.5x/low/p95")):
        worst = max(v for k, v in figures.items() if k.startswith("full/") and k.endswith(end) and _shown(k))
        print(f"full telemetry, 1.5x, worst 95th percentile of {what}: {worst:+.1%} (to stay under +10 %)")


def _cases(quick: bool) -> Iterator[Case]:
    worlds: list[World] = [*curve_worlds(), *queue_worlds()]
    if quick:
        worlds = list({world.family: world for world in worlds}.values())
    for world in worlds:
        for workers in SIZES if isinstance(world, CurveWorld) else QUEUE_SIZES:
            yield from _cases_at(world, workers)


def _cases_at(world: World, workers: int) -> Iterator[Case]:
    smaller = sorted({max(1, round(workers * share)) for share in FIVE} - {workers})
    varied = [world.window(n, OTHER_LOADS[n % 4], 5) for n in smaller]
    full = [world.window(n, 1.0, 5) for n in smaller]
    truth = {x: world.capacity(round(workers * x)) for x in FURTHER}
    for load in LOADS:
        last = world.window(workers, load, 3)
        seen = {"one": [last], "five": [*varied, last], "saturated": [*full, last]}
        yield Case(world.family, workers, load, seen, truth, world.capacity(1))


def _taught(case: Case, seen: str, telemetry: Telemetry) -> ThroughputModel:
    """Each window comes twice: the first after a resize is not learned from."""
    if telemetry is Telemetry.PROGRESS and seen == "five":
        seen = "saturated"
    model = ThroughputModel.guessed(GUESS * case.lone_rate)
    for place, window in enumerate(case.seen[seen]):
        for repeat in (0, 1) if place else (1,):
            model = model.seen(told(window, telemetry, at_s=20.0 * place + 10.0 * repeat + 10.0))
    return model


def _errors(cases: Sequence[Case], telemetry: Telemetry) -> dict[str, float]:
    """Relative errors of C and C_low by family, windows seen and extrapolation: three quantiles."""
    found: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        if telemetry is Telemetry.PROGRESS and case.load < 1:
            continue
        for seen in ("one", "five"):
            model = _taught(case, seen, telemetry)
            for further, truth in case.truth.items():
                n = round(case.workers * further)
                key = f"{telemetry}/{case.family}/{seen}/{further}x"
                found[key].append(model.samples_per_s(n) / truth - 1)
                found[f"{key}/low"].append(model.low(n) / truth - 1)
    return _quantiles(found)


def _peer_errors(cases: Sequence[Case]) -> dict[str, float]:
    """The same of the peers, which are given busy fractions too."""
    found: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        for seen in ("one", "five"):
            for peer, fitted in PEERS.items():
                curve = fitted(case.seen[seen])
                for further, truth in case.truth.items():
                    key = f"{peer}/{case.family}/{seen}/{further}x"
                    found[key].append(curve(round(case.workers * further)) / truth - 1)
    return _quantiles(found)


def _quantiles(found: dict[str, list[float]]) -> dict[str, float]:
    return {
        f"{key}/p{round(100 * share):02d}": round(float(np.quantile(errors, share)), 4)
        for key, errors in found.items()
        for share in (0.05, 0.5, 0.95)
    }


def _peer_table(figures: dict[str, float]) -> str:
    """95 % quantile of the error at 1.5x, in per cent: how much too much is promised."""
    kinds = ("full", "busy", *PEERS)
    lines = [
        "\npromised too much at 1.5x: 95 % quantile of the error, per cent, one window / five\n",
        f"| family | C_low, full | C_low, busy | {' | '.join(kinds)} |",
        "|---|" + "--:|" * (len(kinds) + 2),
    ]
    for family in _families(figures, Telemetry.FULL):
        cells = []
        for name in (*(f"{kind}/low" for kind in ("full", "busy")), *kinds):
            kind, _, low = name.partition("/")
            ends = [f"{kind}/{family}/{seen}/1.5x/{low}/p95".replace("//", "/") for seen in ("one", "five")]
            cells.append(" / ".join(f"{100 * figures[end]:+.0f}" for end in ends))
        mark = "*" if family in UNSHOWN else ""
        lines.append(f"| {family}{mark} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(key: str) -> bool:
    return not any(family in key for family in UNSHOWN)


def _families(figures: dict[str, float], telemetry: Telemetry) -> list[str]:
    families = dict.fromkeys(key.split("/")[1] for key in figures if key.startswith(f"{telemetry}/"))
    return sorted(families, key=lambda family: family in UNSHOWN)


def _table(figures: dict[str, float], telemetry: Telemetry) -> str:
    """Median [5 %, 95 %] of the error of C(n), in per cent; the last column is C_low at 1.5x, 95 %."""
    head = " | ".join(f"{seen}, {x}x" for seen in ("one", "five") for x in FURTHER)
    lines = [
        f"\ntelemetry: {telemetry}\n",
        f"| family | {head} | five, 1.5x, C_low |",
        "|---|" + "--:|" * 7,
    ]
    for family in _families(figures, telemetry):
        cells = []
        for seen in ("one", "five"):
            for x in FURTHER:
                low, middle, high = (
                    100 * figures[f"{telemetry}/{family}/{seen}/{x}x/{q}"] for q in ("p05", "p50", "p95")
                )
                cells.append(f"{middle:+.0f} [{low:+.0f}, {high:+.0f}]")
        careful = 100 * figures[f"{telemetry}/{family}/five/1.5x/low/p95"]
        mark = "*" if family in UNSHOWN else ""
        lines.append(f"| {family}{mark} | {' | '.join(cells)} | {careful:+.0f} |")
    return "\n".join(lines)


def _days(quick: bool) -> dict[str, float]:
    """Half a day in the loop: the pool follows the model, and the model learns from the pool."""
    figures: dict[str, float] = {}
    found: dict[str, list[float]] = defaultdict(list)
    for world in curve_worlds():
        if quick and found[f"{world.family}/busy/later"]:
            continue
        for telemetry in (Telemetry.BUSY, Telemetry.FULL):
            errors = _day(world, telemetry)
            found[f"{world.family}/{telemetry}/first"] += errors[: len(errors) // 2]
            found[f"{world.family}/{telemetry}/later"] += errors[len(errors) // 2 :]
    for key, errors in found.items():
        for share in (0.05, 0.5, 0.95):
            figures[f"day/{key}/p{round(100 * share):02d}"] = round(float(np.quantile(errors, share)), 4)
    return figures


def _day(world: CurveWorld, telemetry: Telemetry, *, windows: int = 4320) -> list[float]:
    """Errors of C at the size in use, at every window of 10 s."""
    draw = np.random.default_rng(11)
    model = ThroughputModel.guessed(GUESS * world.capacity(1))
    workers, wobble, errors = 6, 0.0, []
    for tick in range(windows):
        if tick % 30 == 0:
            wobble = float(draw.normal(0.0, 0.08))
        rhythm = 0.55 - 0.45 * math.cos(2 * math.pi * tick / 8640)
        demand = 0.85 * world.capacity(16) * rhythm * (1 + wobble)
        window = world.window(workers, min(1.0, demand / world.capacity(workers)), tick)
        model = model.seen(told(window, telemetry, at_s=10.0 * tick))
        errors.append(model.samples_per_s(workers) / world.capacity(workers) - 1)
        if tick % 6 == 0:
            workers = min(max(model.workers_for(demand / 0.9, workers_max=32), 1), 32)
    return errors


def _day_table(figures: dict[str, float]) -> str:
    lines = [
        "\nin the loop: error of C at the size in use, per cent, first and second six hours\n",
        "| family | busy, first | busy, later | full, first | full, later |",
        "|---|--:|--:|--:|--:|",
    ]
    for family in dict.fromkeys(key.split("/")[1] for key in figures if key.startswith("day/")):
        cells = []
        for telemetry in ("busy", "full"):
            for half in ("first", "later"):
                low, middle, high = (
                    100 * figures[f"day/{family}/{telemetry}/{half}/{q}"] for q in ("p05", "p50", "p95")
                )
                cells.append(f"{middle:+.1f} [{low:+.0f}, {high:+.0f}]")
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _borrowing() -> dict[str, float]:
    """C(n) of a GPU twice as fast, lent by one that was seen at five sizes; and by Sia's ratio alone."""
    ours, plain = [], []
    for demand_s in (0.005, 0.0025):
        slow = QueueWorld("slow", ParameterServer((demand_s,), service_cv2=0.5))
        fast = QueueWorld("fast", ParameterServer((demand_s,), service_cv2=0.5, compute_s=0.025))
        guess = Guess(1.0, lone_rates={"slow": slow.capacity(1), "fast": fast.capacity(1)})
        types = GpuTypes()
        for place, n in enumerate((2, 4, 6, 8, 12)):
            window = slow.window(n, 0.8, 5)
            for repeat in (0, 1):
                at_s = 20.0 * place + 10.0 * repeat + 10.0
                types = types.seen(replace(told(window, Telemetry.FULL, at_s), gpu_type="slow"), guess)
        ratio = fast.capacity(1) / slow.capacity(1)
        for n in (2, 4, 8, 12):
            ours.append(types.of("fast", guess).samples_per_s(n) / fast.capacity(n) - 1)
            plain.append(ratio * types.of("slow", guess).samples_per_s(n) / fast.capacity(n) - 1)
    return {
        "borrowed/kept demand/worst over": round(max(ours), 4),
        "borrowed/kept demand/worst under": round(min(ours), 4),
        "borrowed/plain ratio/worst over": round(max(plain), 4),
        "borrowed/plain ratio/worst under": round(min(plain), 4),
    }


def _rest(figures: dict[str, float]) -> str:
    lines = ["\nother figures\n"]
    lines += [
        f"  {key}: {value}" for key, value in figures.items() if key.split("/")[0] in ("borrowed", "cost")
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
