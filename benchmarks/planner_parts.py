"""What each part of the planner is worth, and what the forecast costs: `make bench-planner-parts`.

The same planner, with one part taken away at a time, and once on the true future. Each row is one run
a trace at a fixed price of lateness. `total` is the planner's own objective, in floors:
GPU-hours over floor + price x late share. Writes `benchmarks/results/planner_parts.md` and `.json`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.plants import PLANTS
from benchmarks.policies import RESULTS, traces_at_hand
from estimator.planner import choice, futures, planning, traffic_model
from estimator.planner.features import WIDTH, Shape
from estimator.planner.glimpse import Glimpses
from estimator.planner.traffic_model import TrafficModel
from estimator.rules import Rule, rule_named
from estimator.rules.penstock import penstock
from services.simulator.contest import Contest
from services.simulator.figures import figures_of
from services.simulator.floor import floor_gpu_hours
from services.simulator.plant import Plant
from services.simulator.run import Course, simulate
from services.simulator.trace import Trace

WARM_S = 3 * 3600
"""Simulated before scoring; what is before that is history."""
PRICES = (6.0, 30.0)
"""Of a late sample in works of one: where a target of 1 % and of 0.2 % start."""


@dataclass(frozen=True, slots=True)
class Row:
    """One variant on one trace at one price."""

    late_share: float
    over_floor: float
    resizes: float
    reversals: float


def _fitted_as(change: Callable[[TrafficModel], TrafficModel]) -> Any:
    true_fit = traffic_model.fit

    def fit(*given: Any, **named: Any) -> TrafficModel | None:
        model = true_fit(*given, **named)
        return None if model is None else change(model)

    return patch.object(planning, "fit", fit)


def _plainly_drawn(model: TrafficModel) -> TrafficModel:
    """Paths drawn evenly over badness: the middle of each of as many equal strata."""
    cumulated = np.cumsum(model.chances)
    many = len(model.chances)
    chosen = np.searchsorted(cumulated, (np.arange(many) + 0.5) / many)
    return replace(model, errors=model.errors[chosen], chances=np.full(many, 1 / many))


@contextmanager
def _true_future(course: Course) -> Iterator[None]:
    """The planner on one future: the one that comes."""
    arrivals, now = course.arrivals, [0.0]
    true_plan = planning.Planner.plan

    def plan(self: Any, seen: Any, *given: Any, **named: Any) -> Any:
        now[0] = seen.now_s
        return true_plan(self, seen, *given, **named)

    total = np.concatenate([[0.0], np.cumsum(arrivals.per_second)])

    def rates_of(since_s: float, step_s: float, many: int, *, over_s: float) -> Any:
        middle_s = since_s - arrivals.start_s + (np.arange(many) + 0.5) * step_s
        first, last = (
            np.clip(np.rint(middle_s + side * over_s / 2).astype(np.int64), 0, len(total) - 1)
            for side in (-1, 1)
        )
        return (total[last] - total[first]) / np.maximum(last - first, 1)

    def futures_of(_: Any, __: Any, timing: Any, **___: Any) -> futures.Futures:
        rates = rates_of(now[0], timing.step_s, timing.steps, over_s=timing.step_s)
        # Seen as roughly as the planner sees it: the noise of one minute is no reason to keep a worker.
        further = rates_of(
            now[0] + timing.horizon_s, timing.bin_s, timing.further, over_s=WIDTH * timing.bin_s
        )
        return futures.Futures(rates[None, :], np.ones(1), rates, further)

    with patch.object(planning.Planner, "plan", plan), patch.object(planning, "futures_of", futures_of):
        yield


def _even_volatility(*given: Any) -> Any:
    origins, errors = given[2], given[-1]
    variance = float(np.mean(np.minimum(errors**2, np.quantile(errors**2, 0.99))))
    return np.array([variance, 0.0, 0.0, 0.0]), np.full(len(origins), np.sqrt(variance))


def _one_path(model: TrafficModel) -> TrafficModel:
    return replace(model, errors=np.zeros_like(model.errors[:1]), chances=np.ones(1))


def _no_season(bins: int, ahead: int, season: int) -> Shape:
    del bins, season
    return Shape(ahead, ())


def _no_clock(shape: Shape, levels: Any, last: int) -> Any:
    del levels
    return np.zeros(last + 1 + shape.ahead)


def _unbounded(model: TrafficModel) -> TrafficModel:
    return replace(model, rises=replace(model.rises, highest=np.full_like(model.rises.highest, np.inf)))


def _straight(plant: Plant) -> Any:
    """Each worker as fast as one alone, which is all that a user knows who has not measured more."""

    def curve(weighing: Any) -> Any:
        seen = weighing.seen
        most = max(seen.limits.workers_max, seen.ready, seen.requested)
        return plant.rate_per_worker * np.arange(most + 1, dtype=np.float64)

    return patch.object(choice.Weighing, "_curve", curve)


def _without(name: str, course: Course, plant: Plant) -> Sequence[Any]:
    """The patches that take one part away."""
    parts: Mapping[str, Callable[[], Sequence[Any]]] = {
        "full": lambda: (),
        "true future": lambda: (_true_future(course),),
        "no uncertainty": lambda: (_fitted_as(_one_path),),
        "no shuffler": lambda: (),  # the same planner, where Kafka's groups deal the partitions
        "no throughput model": lambda: (_straight(plant),),
        "no smoothing": lambda: (
            patch.object(choice, "RESIZE_SHARE", 0.0),
            patch.object(choice, "GIVE_BACK_SHARE", 0.0),
            _fitted_as(lambda m: replace(m, fall=1e9)),
        ),
        "no charge for giving back": lambda: (patch.object(choice, "GIVE_BACK_SHARE", 0.0),),
        "no forecast": lambda: (_fitted_as(lambda m: replace(m, weights=np.zeros_like(m.weights))),),
        "no charge for size": lambda: (patch.object(choice, "LARGE", 1e9),),
        "no season": lambda: (patch.object(traffic_model, "_shape", _no_season),),
        "no volatility scaling": lambda: (patch.object(traffic_model, "_volatility", _even_volatility),),
        "no tail strata": lambda: (_fitted_as(_plainly_drawn),),
        "no weighing of rows": lambda: (
            patch.object(traffic_model, "_worth", lambda levels, _: np.ones(len(levels))),
        ),
        "no dip guard": lambda: (_fitted_as(lambda m: replace(m, fall=1e9)),),
        "no clock": lambda: (patch.object(Shape, "by_the_clock", _no_clock),),
        "no bound on rises": lambda: (_fitted_as(_unbounded),),
        "live bin believed": lambda: (
            patch.object(Glimpses, "level", lambda _, seen, __, **___: (seen, 0.0)),
        ),
        "no live bin": lambda: (
            patch.object(planning, "HEARD_FROM", 2.0),
            patch.object(planning, "NEWS", 1e9),
        ),
        "no resize cost": lambda: (patch.object(choice, "RESIZE_SHARE", 0.0),),
        "no floor": lambda: (patch.object(choice.Weighing, "_floor", lambda *_: 0),),
        "no overdue": lambda: (patch.object(choice, "OVERDUE_SHARE", 0.0),),
    }
    return parts[name]()


VARIANTS = (
    "full", "true future", "no uncertainty", "no forecast", "no throughput model", "no shuffler",
    "no smoothing", "no resize cost", "no charge for giving back", "no charge for size", "no season",
    "no volatility scaling", "no tail strata", "no weighing of rows", "no dip guard", "no clock",
    "no bound on rises", "no live bin", "live bin believed", "no floor", "no overdue",
)  # fmt: skip
GROUP = "cooperative"
"""The plant without leases."""
PEERS = {"hpa": "cooperative", "hpa here": ""}
"""HPA at 80 %, where Kafka's best consumer groups put it, and on the plant of the others."""


def measured(name: str, contest: Contest, price: float) -> Row:
    """One variant through the simulator; a forecast is not given to it."""
    course = shortened(contest.course(), WARM_S)
    plant = PLANTS[GROUP] if name == "no shuffler" else contest.plant
    with ExitStack() as stack:
        for part in _without(name, course, plant):
            stack.enter_context(part)
        rule = replace(penstock(price=price, explains=False), foresees=False)
        return run(rule, plant, course, contest.seed)


def _peer(name: str, contest: Contest, price: float) -> Row:
    del price
    plant = PLANTS[PEERS[name]] if PEERS[name] else contest.plant
    course = shortened(contest.course(), WARM_S)
    return run(rule_named("hpa", {"target": 0.8}), plant, course, contest.seed)


def run(rule: Rule[Any], plant: Plant, course: Course, seed: int) -> Row:
    """One rule through the simulator."""
    found = figures_of(simulate(rule, plant, course, seed=seed), plant, seed=seed)
    floor = floor_gpu_hours(plant, course.scored)
    return Row(found.late_share, found.gpu_hours / floor, found.resizes, found.reversals)


def from_day(trace: Trace, days: float) -> Trace:
    """Without its first days: other days of the same traffic are warmed up on and scored."""
    kept = trace.starts_s >= trace.starts_s[0] + days * 86_400
    return replace(trace, starts_s=trace.starts_s[kept], rates=trace.rates[kept])


def shortened(course: Course, warm_s: int) -> Course:
    """With less of the warm-up simulated: what is learned is learned from the history."""
    skip = course.scored_from_s - min(warm_s, course.scored_from_s)
    before = np.concatenate([course.before, course.arrivals.part(0, skip).minutes])
    return Course(
        before, course.arrivals.part(skip, len(course.arrivals.per_second)), course.scored_from_s - skip
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    options = _options(arguments)
    wanted_traces = [trace for trace in traces_at_hand() if not options.trace or trace.name in options.trace]
    traces = [from_day(trace, options.from_day) for trace in wanted_traces]
    contests = [
        Contest(trace, PLANTS[options.plant], seed=options.seed, days=options.days) for trace in traces
    ]
    flat: dict[str, float] = {}
    lines = [f"{options.plant}, {len(traces)} traces, {options.days:g} days each", ""]
    lines += [
        "| planner | price | late | over floor | resizes | reversals | total |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    print("\n".join(lines), flush=True)
    prices = options.price or PRICES
    wanted = [(measured, name, price) for name in options.variant or VARIANTS for price in prices]
    wanted += [(_peer, name, prices[0]) for name in (() if options.variant else PEERS)]
    with ProcessPoolExecutor(options.jobs) as pool:
        running = [
            (name, price, [pool.submit(work, name, contest, price) for contest in contests])
            for work, name, price in wanted
        ]
        for name, price, rows in running:
            _add(lines, name, price, [row.result() for row in rows], flat, options, traces)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "planner_parts.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (RESULTS / "planner_parts.json").write_text(json.dumps(flat, indent=1) + "\n", encoding="utf-8")


def _add(  # noqa: PLR0917 - a line of a table
    lines: list[str], name: str, price: float, rows: Sequence[Row], flat: dict[str, float],
    options: argparse.Namespace, traces: Sequence[Trace],
) -> None:  # fmt: skip
    if options.each:
        for trace, row in zip(traces, rows, strict=True):
            print(f"    {trace.name} {row}")
    lines.append(_line(name, price, rows, flat))
    print(lines[-1], flush=True)


def _line(name: str, price: float, rows: Sequence[Row], flat: dict[str, float]) -> str:
    late, over = fmean(row.late_share for row in rows), fmean(row.over_floor for row in rows)
    resizes, reversals = fmean(row.resizes for row in rows), fmean(row.reversals for row in rows)
    key = f"{name.replace(' ', '_')}_price_{price:g}"
    flat |= {f"{key}_late_share": late, f"{key}_over_floor": over, f"{key}_resizes": resizes}
    flat[f"{key}_total"] = over + price * late
    cells = (name, f"{price:g}", f"{late:.3%}", f"{over:.3f}", f"{resizes:.0f}", f"{reversals:.0f}")
    return f"| {' | '.join(cells)} | {over + price * late:.3f} |"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--days", type=float, default=1.0, help="days scored")
    parser.add_argument("--from-day", type=float, default=0.0, help="leave out so many days of each trace")
    parser.add_argument("--trace", action="append", help="only the trace of this name; repeatable")
    parser.add_argument("--variant", action="append", choices=VARIANTS)
    parser.add_argument("--price", action="append", type=float)
    parser.add_argument("--plant", default="hot-join", choices=tuple(PLANTS))
    parser.add_argument("--each", action="store_true", help="also show each trace")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
