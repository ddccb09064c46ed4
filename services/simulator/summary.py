"""A verdict as JSON, CSV and a table: what scripts and people read."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from services.simulator.contest import Judged, Verdict
from services.simulator.errors import NotWritable
from services.simulator.hull import Point, ReadAcross
from services.simulator.run import Course, Run


def as_json(
    verdict: Verdict, frontier: Sequence[Point] = (), across: Sequence[ReadAcross] = ()
) -> dict[str, Any]:
    """`trace`, `plant`, `limits` and `policies` by name; with a frontier also that."""
    contest, scored = verdict.contest, verdict.course.scored
    content: dict[str, Any] = {
        "trace": {
            "name": contest.trace.name,
            "native_step_s": contest.trace.native_step_s,
            "native_minute": contest.trace.is_native_minute,
            "bins_filled": contest.trace.filled,
            "scored_days": len(scored.per_second) / 86_400,
            "samples": float(scored.per_second.sum()),
            "seed": contest.seed,
            "forecaster": contest.forecaster,
            "notes": list(verdict.notes),
        },
        "plant": {**contest.plant.model_dump(mode="json"), "workers_max": contest.plant.most_workers},
        "limits": _limits(verdict),
        "policies": {judged.choice.label: _policy(judged) for judged in verdict.judged},
    }
    if frontier:
        content["frontier"] = {
            "points": [_point(point) for point in frontier],
            "read_across": [
                {
                    "policy": ratio.policy,
                    "gpu_hours_at_equal_lateness": ratio.gpu_hours_at_equal_lateness,
                    "late_share_at_equal_gpu_hours": ratio.late_share_at_equal_gpu_hours,
                }
                for ratio in across
            ],
        }
    return content


def _point(point: Point) -> dict[str, Any]:
    return {"policy": point.label, "late_share": point.late_share, "over_floor": point.over_floor}


def _limits(verdict: Verdict) -> dict[str, Any]:
    limits: dict[str, Any] = {"floor_gpu_hours": verdict.floor_gpu_hours}
    if verdict.oracle is not None:
        limits["oracle"] = [
            {
                "price_gpu_s": point.price,
                "bound_gpu_s": point.bound_gpu_s,
                "replayed_late_share": point.late_share,
                "replayed_gpu_hours": point.gpu_hours,
                "replayed_over_floor": point.gpu_hours / verdict.floor_gpu_hours,
            }
            for point in verdict.oracle.points
        ]
        limits["oracle_bound_gpu_hours_at_zero_late"] = verdict.oracle.bound_gpu_hours(0.0)
    return limits


def _policy(judged: Judged) -> dict[str, Any]:
    figures = judged.figures
    return {
        "forecaster": judged.forecaster or None,
        "late_share": figures.late_share,
        "over_slo_share": figures.over_slo_share,
        "gpu_hours": figures.gpu_hours,
        "over_floor": judged.over_floor,
        "over_oracle": judged.over_oracle,
        "mean_lag": figures.mean_lag,
        "accumulated_lag": figures.accumulated_lag,
        "p50_delay_s": figures.p50_delay_s,
        "p99_delay_s": figures.p99_delay_s,
        "downtime_s": figures.downtime_s,
        "worker_s_lost": figures.worker_s_lost,
        "gpu_utilisation": figures.gpu_utilisation,
        "resizes": figures.resizes,
        "reversals": figures.reversals,
        "failures": figures.failures,
        "late_share_interval": list(figures.late_share_interval),
        "gpu_hours_interval": list(figures.gpu_hours_interval),
    }


def check_writable(*paths: Path | None) -> None:
    """Before hours of work, not after them. Raises NotWritable."""
    for path in paths:
        if path is not None and path.is_dir():
            raise NotWritable(f"{path} is a directory; name a file")
        if path is not None and not path.parent.is_dir():
            raise NotWritable(f"{path} cannot be written: there is no directory {path.parent}")


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write it, for people too."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_arrivals(path: Path, course: Course) -> None:
    """The per-minute rates of the scored part, `second,rate` from its second 0; readable as a trace again."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("second", "rate"))
        rows.writerows((60 * minute, repr(float(rate))) for minute, rate in enumerate(course.scored.minutes))


def write_decisions(path: Path, run: Run) -> None:
    """`second,workers,standbys`: the size at second 0 of the scored part, then every change asked for.

    `workers` counts all that were asked for, `standbys` those of them that stand by.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("second", "workers", "standbys"))
        sizes, standbys = dict(run.asked), dict(run.stood_by)  # of several at one second, the last
        workers = waiting = 0
        for second in sorted({*sizes, *standbys}):
            workers, waiting = sizes.get(second, workers), standbys.get(second, waiting)
            rows.writerow((second, workers, waiting))


def as_table(verdict: Verdict, *, wide: bool = True) -> Table:
    """The figures of every policy, for the terminal; the most telling ones where it is not `wide`."""
    contest = verdict.contest
    days = len(verdict.course.scored.per_second) / 86_400
    title = f"{contest.trace.name}, {days:.3g} days scored, SLO {contest.plant.slo_s:g} s"
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    rows = [_row(judged) for judged in verdict.judged]
    limits = [_limit_row("floor", "", verdict.floor_gpu_hours, verdict.floor_gpu_hours)]
    if verdict.oracle is not None:
        best = verdict.oracle.punctual
        limits.append(_limit_row("oracle", _share(best.late_share), best.gpu_hours, verdict.floor_gpu_hours))
    shown = COLUMNS if wide else [name for name in COLUMNS if name not in WIDE_ONLY]
    for name in shown:
        _add_column(table, name, words=name in ("policy", "forecasts"))
    for row in rows:
        row["policy"] = row["policy"] if wide else _in_lines(row["policy"])
        table.add_row(*(row[name] for name in shown))
    table.add_section()
    for row in limits:
        table.add_row(*(row.get(name, "") for name in shown))
    return table


def _add_column(table: Table, name: str, *, words: bool) -> None:
    """Words go on in the next line where the terminal is narrow; a figure cut off is no figure."""
    if words:
        table.add_column(name, overflow="fold")
    else:
        table.add_column(name, justify="right", no_wrap=True)


def _in_lines(policy: str) -> str:
    """A long one with a line for each option.

    >>> print(_in_lines("madu:k=1,utilisation=0.8"))
    madu:
     k=1,
     utilisation=0.8
    """
    if len(policy) <= POLICY_WIDTH:
        return policy
    return policy.replace(":", ":\n ").replace(",", ",\n ")


POLICY_WIDTH = 16
"""Columns that a narrow terminal has for the name of a policy beside its figures."""
COLUMNS = (
    "policy", "forecasts", "late", "over SLO", "GPU-h", "x floor", "x oracle", "mean lag", "p50 s", "p99 s",
    "down s", "use", "resizes", "reversals",
)  # fmt: skip
WIDE_ONLY = ("forecasts", "over SLO", "mean lag", "p50 s", "reversals")


def _limit_row(name: str, late: str, gpu_hours: float, floor: float) -> dict[str, str]:
    ratio = f"{gpu_hours / floor:.2f}" if floor > 0 else ""
    return {"policy": name, "late": late, "GPU-h": _hours(gpu_hours), "x floor": ratio}


def _share(late: float) -> str:
    return f"{late:.3%}" if late < 0.01 else f"{late:.1%}"


def _hours(gpu_hours: float) -> str:
    return f"{gpu_hours:,.1f}" if gpu_hours < 1000 else f"{gpu_hours:,.0f}"


def _row(judged: Judged) -> dict[str, str]:
    figures = judged.figures
    values = (
        judged.choice.label,
        judged.forecaster,
        _share(figures.late_share),
        f"{figures.over_slo_share:.2%}",
        _hours(figures.gpu_hours),
        f"{judged.over_floor:.2f}",
        "" if judged.over_oracle is None else f"{judged.over_oracle:.2f}",
        f"{figures.mean_lag:,.0f}",
        f"{figures.p50_delay_s:.0f}",
        f"{figures.p99_delay_s:,.0f}",
        f"{figures.downtime_s:,.0f}",
        f"{figures.gpu_utilisation:.0%}",
        f"{figures.resizes:,}",
        f"{figures.reversals:,}",
    )
    return dict(zip(COLUMNS, values, strict=True))


def across_table(baseline: Point, across: Sequence[ReadAcross]) -> Table:
    """Each policy's frontier against one point of the baseline."""
    at = f"{baseline.late_share:.3%} late at {baseline.over_floor:.2f}x floor"
    table = Table(title=f"read across against {baseline.label}: {at}")
    table.add_column("policy")
    table.add_column("GPU-hours at equal lateness", justify="right")
    table.add_column("late share at equal GPU-hours", justify="right")
    for ratio in across:
        cells = (ratio.gpu_hours_at_equal_lateness, ratio.late_share_at_equal_gpu_hours)
        table.add_row(ratio.policy, *("not reached" if cell is None else f"{cell:.2f}x" for cell in cells))
    return table
