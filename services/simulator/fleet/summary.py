"""A fleet's verdict as a table and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from services.simulator.fleet import layout as at
from services.simulator.fleet.contest import FleetVerdict, JudgedFleet


def as_json(verdict: FleetVerdict) -> dict[str, Any]:
    """`fleet`, `policies` by name, and within them every job."""
    fleet = verdict.fleet
    return {
        "fleet": {
            "name": verdict.name,
            "seed": verdict.seed,
            "gpus": {kind: about.gpus for kind, about in fleet.gpu_types.items()},
            "jobs": len(fleet.jobs),
            "guaranteed": sum(job.guaranteed for job in fleet.jobs),
            "scored_days": verdict.traffic.judged.shape[1] / 1440,
            "load_peak": _peak(verdict),
            "load_mean": float(verdict.load.mean()) if len(verdict.load) else None,
            "slo_s": fleet.slo_s,
        },
        "policies": {
            judged.policy: {**asdict(judged.figures), "jobs": _jobs(verdict, judged)}
            for judged in verdict.judged
        },
    }


def _jobs(verdict: FleetVerdict, judged: JudgedFleet) -> dict[str, Any]:
    sums, resizes = judged.run.sums, judged.run.resizes
    shares = sums[:, at.LATE] / np.maximum(sums[:, at.TRAINED], 1e-9)
    return {
        job.label: {
            "weight": job.weight,
            "guaranteed": job.guaranteed,
            "late_share": float(shares[place]),
            "gpu_hours": float(sums[place, at.HELD_S]) / 3600,
            "guarantee_breach_s": float(sums[place, at.BREACH_S]),
            "resizes": int(resizes[place]),
        }
        for place, job in enumerate(verdict.fleet.jobs)
    }


COLUMNS = ("policy", "late", "worst", "over", "GPU-h", "broken", "broken s", "contended", "resizes")
"""`over`: jobs over target; `broken`: guarantees, and for how many job-seconds; `resizes`: by job and day."""


def as_table(verdict: FleetVerdict) -> Table:
    """The figures of every policy, for the terminal."""
    fleet = verdict.fleet
    gpus = ", ".join(f"{about.gpus} {kind}" for kind, about in fleet.gpu_types.items())
    peak = _peak(verdict)
    load = "" if peak is None else f", demand peaks at {peak:.2f}x the budget"
    title = f"{verdict.name}: {len(fleet.jobs)} jobs on {gpus}{load}, SLO {fleet.slo_s:g} s"
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(COLUMNS[0], overflow="fold")  # a long policy goes on in the next line
    for name in COLUMNS[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for judged in verdict.judged:
        table.add_row(*_row(judged))
    return table


def _row(judged: JudgedFleet) -> tuple[str, ...]:
    figures = judged.figures
    return (
        judged.policy,
        f"{figures.weighted_late_share:.2%}",
        f"{figures.late_share_worst:.1%}",
        str(figures.jobs_over_target),
        f"{figures.gpu_hours:,.0f}",
        str(figures.guarantees_broken),
        f"{figures.guarantee_breach_job_s:,.0f}",
        f"{figures.contention:.0%}",
        f"{figures.resizes_per_job_day:.0f}",
    )


def _peak(verdict: FleetVerdict) -> float | None:
    return float(verdict.load.max()) if len(verdict.load) else None
