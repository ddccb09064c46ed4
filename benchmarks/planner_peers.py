"""Penstock's frontier against every peer's: `make bench-planner-peers`.

Each policy at every setting of its own knob, all traces pooled: Penstock on `hot-join`, which its leases
give it, the others on `cooperative`, which Kafka's best groups give them; or all on one (`--plant`). Tells
what Penstock costs at each peer's late shares and how late it is at each peer's GPU-hours, and the traces on
which it is both later and dearer than a reactive peer at its defaults. Runs are kept and taken up again, as
those of `make bench-planner` are. Writes `benchmarks/results/planner_peers.md` and `.json`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence

from benchmarks.planner_runs import Outcome, Wanted, mean_of, outcomes_of
from benchmarks.plants import PLANTS
from benchmarks.policies import RESULTS, traces_at_hand
from services.simulator.hull import LATE_MAX, LATE_MIN, Point, cost_at, late_at, lower_hull
from services.simulator.policies import choose

OURS, THEIRS = "hot-join", "cooperative"
PEERS = ("hpa", "keda", "flink", "autopilot", "autopilot-scaled", "madu", "kale", "reactive")
REACTIVE = ("hpa", "keda", "flink", "autopilot", "reactive")
Runs = Callable[[str, str], list[Outcome]]
"""The outcomes of a policy on a plant, a trace each."""


def hull_of(policy: str, plant: str, runs: Runs) -> tuple[Point, ...]:
    """A policy at all settings of its knob, pooled."""
    points = []
    for turned in choose(policy).sweep:
        outcomes = runs(turned.label, plant)
        points.append(Point(turned.label, mean_of(outcomes, "late_share"), mean_of(outcomes, "over_floor")))
    return lower_hull(points)


def compared(peer: str, ours: Sequence[Point], theirs: Sequence[Point], flat: dict[str, float]) -> list[str]:
    """A row for each point of a peer's frontier that may be read across; one of all where none may."""
    shown = [point for point in theirs if LATE_MIN <= point.late_share <= LATE_MAX] or list(theirs[-1:])
    lines = []
    for point in shown:
        cost = cost_at(ours, min(max(point.late_share, LATE_MIN), LATE_MAX))
        late = late_at(ours, point.over_floor)
        row = [point.label, f"{point.late_share:.3%}", f"{point.over_floor:.3f}"]
        row += [
            "-" if cost is None else f"{cost / point.over_floor:.2f}x",
            "-" if late is None else f"{late:.3%}",
        ]
        lines.append(f"| {' | '.join(row)} |")
        if cost is not None:
            worst = flat.get(f"{peer}_gpu_hours_at_equal_lateness_worst", 0.0)
            flat[f"{peer}_gpu_hours_at_equal_lateness_worst"] = max(worst, cost / point.over_floor)
    return lines


def beaten(names: Sequence[str], plants: tuple[str, str], runs: Runs) -> list[str]:
    """Traces on which Penstock at its defaults is both later and dearer than a reactive peer at its own."""
    ours = runs("penstock", plants[0])
    return [
        f"{name}: {peer} is {theirs.late_share:.3%} late at {theirs.over_floor:.3f}x floor, "
        f"penstock {mine.late_share:.3%} at {mine.over_floor:.3f}x"
        for peer in REACTIVE
        for name, mine, theirs in zip(names, ours, runs(peer, plants[1]), strict=True)
        if mine.late_share > theirs.late_share and mine.over_floor > theirs.over_floor
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    options = _options(arguments)
    traces = [trace for trace in traces_at_hand() if not options.trace or trace.name in options.trace]
    plants = (options.plant, options.plant) if options.plant else (OURS, THEIRS)
    RESULTS.mkdir(parents=True, exist_ok=True)

    def runs(policy: str, plant: str) -> list[Outcome]:
        wanted = [Wanted(trace.name, policy, plant, options.days, options.seed) for trace in traces]
        return outcomes_of(wanted, traces, kept=RESULTS / "planner_runs.jsonl", jobs=options.jobs)

    flat: dict[str, float] = {}
    ours = hull_of("penstock", plants[0], runs)
    lines = [
        f"{len(traces)} traces, {options.days:g} days each; Penstock on {plants[0]}, peers on {plants[1]}",
        "",
    ]
    lines += [
        "| policy | late | over floor | Penstock's GPU-hours at that late share | late at those GPU-hours |"
    ]
    lines += ["|---|--:|--:|--:|--:|"]
    lines += [f"| {point.label} | {point.late_share:.3%} | {point.over_floor:.3f} | | |" for point in ours]
    for peer in options.policy or PEERS:
        lines += compared(peer, ours, hull_of(peer, plants[1], runs), flat)
    worse = beaten([trace.name for trace in traces], plants, runs)
    flat["traces_both_later_and_dearer_than_a_reactive_peer"] = len(worse)
    lines += ["", *(worse or ["On no trace both later and dearer than a reactive peer."])]
    print("\n".join(lines))
    (RESULTS / "planner_peers.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (RESULTS / "planner_peers.json").write_text(json.dumps(flat, indent=1) + "\n", encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--days", type=float, default=2.0, help="days scored after a week of warm-up")
    parser.add_argument("--trace", action="append", help="only the trace of this name; repeatable")
    parser.add_argument("--policy", action="append", choices=PEERS, help="only this peer; repeatable")
    parser.add_argument("--plant", choices=tuple(PLANTS), help="the same plant for all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
