"""Every policy on every trace and plant: `python -m benchmarks.policies` (or `make bench-policies`).

Writes `benchmarks/results/`: `summary.md` (one table), `policies.json` (its figures, flat),
`figures-summary.json` (all figures by trace) and a page a plant. Traces come from `PENSTOCK_TRACES`, else
`../shared/data/traces`, else they are made up.

Every run is kept under `benchmarks/results/runs/`, and what is there is not run again: a comparison can be
ended at any time and taken up by the same command. `--afresh NAME` runs a policy again that was changed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.archive import ContestArchive
from benchmarks.plants import PLANTS
from benchmarks.tables import flat_figures, frontier_table, plant_page, policy_table
from services.simulator.contest import Contest, Verdict, judge
from services.simulator.frontier import Frontier, frontier_of, swept
from services.simulator.policies import KINDS, PolicyChoice, choose
from services.simulator.summary import as_json
from services.simulator.synthetic import synthetic_traces
from services.simulator.trace import Trace, read_trace

SHARED = Path("../shared/data/traces")
RESULTS = Path("benchmarks/results")
RUNS = RESULTS / "runs"


def traces_at_hand() -> tuple[Trace, ...]:
    """From the environment's directory, from the shared one, or made up; those of a minute or less first."""
    chosen = os.environ.get("PENSTOCK_TRACES")
    directory = Path(chosen) if chosen else SHARED
    if chosen and not directory.is_dir():
        sys.exit(f"PENSTOCK_TRACES={chosen}: is not a directory")
    found = [read_trace(path) for path in sorted(directory.glob("*.csv"))] if directory.is_dir() else []
    return tuple(sorted(found or synthetic_traces(), key=lambda trace: not trace.is_native_minute))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    options = _options(arguments)
    traces = [trace for trace in traces_at_hand() if not options.trace or trace.name in options.trace]
    choices = tuple(choose(text) for text in options.policy or KINDS)
    baseline = choose(options.baseline)
    run = swept((*choices, baseline)) if options.frontier else choices
    RESULTS.mkdir(parents=True, exist_ok=True)
    results: dict[str, list[Verdict]] = {}
    for name in options.plant or PLANTS:
        results[name] = _on_plant(name, traces, run, options)
        _write(results, baseline, options)


def _on_plant(
    name: str, traces: Sequence[Trace], choices: tuple[PolicyChoice, ...], options: argparse.Namespace
) -> list[Verdict]:
    verdicts = []
    for trace in traces:
        began = time.monotonic()
        contest = Contest(trace, PLANTS[name], seed=options.seed, days=options.days)
        archive = ContestArchive(RUNS, name, contest, afresh=options.afresh or ())
        verdict = judge(contest, choices, with_oracle=options.oracle, jobs=options.jobs, archive=archive)
        verdicts.append(verdict)
        print(f"{name:14} {trace.name:20} {time.monotonic() - began:6.1f} s", flush=True)
    return verdicts


def _write(
    results: Mapping[str, Sequence[Verdict]], baseline: PolicyChoice, options: argparse.Namespace
) -> None:
    command = "python -m benchmarks.policies " + " ".join(sys.argv[1:])
    frontiers = _frontiers(results, baseline) if options.frontier else {}
    parts = [f"Made by `{command.strip()}`.\n", policy_table(results)]
    parts += [frontier_table(name, frontier) for name, frontier in frontiers.items()]
    stem = options.name
    (RESULTS / f"{stem}.md").write_text("\n".join(parts), encoding="utf-8")
    content: dict[str, Any] = {
        name: {verdict.contest.trace.name: as_json(verdict) for verdict in verdicts}
        for name, verdicts in results.items()
    }
    flat = json.dumps(flat_figures(results), indent=1) + "\n"
    (RESULTS / ("policies.json" if stem == "summary" else f"policies-{stem}.json")).write_text(flat, "utf-8")
    (RESULTS / f"figures-{stem}.json").write_text(json.dumps(content) + "\n", encoding="utf-8")
    for name, verdicts in results.items():
        page = plant_page(name, verdicts, frontiers.get(name))
        (RESULTS / f"{name}-{stem}.html").write_text(page, encoding="utf-8")


def _frontiers(results: Mapping[str, Sequence[Verdict]], baseline: PolicyChoice) -> dict[str, Frontier]:
    return {name: frontier_of(verdicts, baseline=baseline.label) for name, verdicts in results.items()}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--plant", action="append", choices=list(PLANTS), help="only this plant; repeatable")
    parser.add_argument("--policy", action="append", help="only this policy, NAME[:option=value]; repeatable")
    parser.add_argument("--trace", action="append", help="only the trace of this name; repeatable")
    parser.add_argument("--days", type=float, default=7.0, help="days scored after a week of warm-up")
    parser.add_argument("--frontier", action="store_true", help="sweep each policy's own knob")
    parser.add_argument("--baseline", default="hpa", help="the policy that frontiers are read against")
    parser.add_argument("--no-oracle", dest="oracle", action="store_false", help="skip the clairvoyant limit")
    parser.add_argument("--afresh", action="append", metavar="POLICY", help="run this one again; repeatable")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", default="summary", help="stem of the files written")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
