"""The fleet beside its peers: `python -m benchmarks.fleet` (or `make bench-fleet`).

Writes `benchmarks/results/fleet.json`, one flat object. `--part` runs some of it and keeps the other figures;
`--policy` plays some of the policies on the contended fleet, which takes minutes each.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.fleet_parts import borrowed_curves, multiplexing, programme_time
from benchmarks.fleet_tick import whole_tick
from benchmarks.fleet_wishes import wish_time
from services.simulator.fleet.builtin import builtin_fleet
from services.simulator.fleet.contest import POLICIES, judge_fleet
from services.simulator.fleet.figures import FleetFigures

RESULT = Path("benchmarks/results/fleet.json")
PEERS = tuple(name for name in POLICIES if name != "penstock")
SHOWN = (
    "weighted_late_share", "late_share_worst", "jobs_over_target", "gpu_hours", "guarantees_broken",
    "guarantee_breach_job_s", "contention", "resizes_per_job_day",
)  # fmt: skip

Flat = dict[str, float]


def contended(options: argparse.Namespace) -> Flat:
    """A hundred jobs on three types, demand peaking at 1.3 times the budget, the same hours for all."""
    fleet = builtin_fleet("contended", seed=options.seed)
    prefix = _prefix(options.seed)
    flat: Flat = {}
    for policy in options.policy or POLICIES:
        began = time.process_time()
        verdict = judge_fleet("contended", fleet, [policy], seed=options.seed, days=options.days)
        flat[f"{prefix}_load_peak"] = float(verdict.load.max())
        flat[f"{prefix}_load_mean"] = float(verdict.load.mean())
        flat[f"{prefix}_days"] = verdict.traffic.judged.shape[1] / 1440
        figures: FleetFigures = verdict.judged[0].figures
        flat |= {f"{prefix}_{policy}_{name}": float(value) for name, value in asdict(figures).items()}
        flat[f"{prefix}_{policy}_cpu_s"] = time.process_time() - began
        print(policy, {name: round(float(getattr(figures, name)), 4) for name in SHOWN}, flush=True)
    return flat


def _prefix(seed: int) -> str:
    """Figures of other seeds than the first stand beside its own."""
    return "contended" if seed == 1 else f"contended_seed{seed}"


def compared(flat: Mapping[str, float], prefix: str) -> Flat:
    """Ours against the peers, where all of them were played."""
    keys = {name: f"{prefix}_{name}_weighted_late_share" for name in POLICIES}
    if not all(key in flat for key in keys.values()):
        return {}
    late = {name: flat[key] for name, key in keys.items()}
    best = min(late[name] for name in PEERS)
    return {
        f"{prefix}_late_share_over_static": late["penstock"] / max(late["static"], 1e-12),
        f"{prefix}_late_share_over_best_peer": late["penstock"] / max(best, 1e-12),
        f"{prefix}_late_share_best_peer": best,
    }


PARTS: Mapping[str, Callable[[argparse.Namespace], Flat]] = {
    "contended": contended,
    "multiplexing": multiplexing,
    "borrowed": borrowed_curves,
    "programme": programme_time,
    "tick": whole_tick,
    "wishes": wish_time,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=tuple(PARTS), help="all of them by default")
    parser.add_argument("--policy", action="append", choices=tuple(POLICIES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=float, default=None, help="of the contended fleet; one by default")
    options = parser.parse_args(arguments)
    some = options.part is not None or options.policy is not None
    if not some:
        RESULT.unlink(missing_ok=True)
    flat: Flat = {}
    for part in options.part or PARTS:
        measured = PARTS[part](options)
        # Read as late as this: another run may have written its own part meanwhile.
        flat = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
        flat |= measured
        flat |= compared(flat, _prefix(options.seed))
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(flat, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    print(_table(flat, _prefix(options.seed)))


def _table(flat: Mapping[str, float], prefix: str) -> str:
    lines = ["| policy | " + " | ".join(SHOWN) + " |", "|---|" + "--:|" * len(SHOWN)]
    for policy in POLICIES:
        cells = [flat.get(f"{prefix}_{policy}_{name}") for name in SHOWN]
        if None not in cells:
            lines.append(f"| {policy} | " + " | ".join(f"{cell:,.4g}" for cell in cells) + " |")
    played = tuple(f"{prefix}_{policy}_" for policy in POLICIES)
    others = {name: value for name, value in sorted(flat.items()) if not name.startswith(played)}
    lines += ["", "| figure | value |", "|---|--:|"]
    lines += [f"| {name} | {value:,.4g} |" for name, value in others.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
