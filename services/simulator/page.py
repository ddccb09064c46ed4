"""A verdict as one HTML page that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from services.simulator import layout as at
from services.simulator.contest import Judged, Verdict
from services.simulator.drawing import Line, scatter, thinned, time_chart
from services.simulator.families import true_curve
from services.simulator.frontier import Frontier

COLOURS = (
    "#0b6e99", "#d9480f", "#5f3dc4", "#2b8a3e", "#c2255c", "#e67700",
    "#087f5b", "#364fc7", "#862e9c", "#868e96", "#495057",
)  # fmt: skip

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#212529}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}
td,th{padding:.2rem .5rem;text-align:right;border-bottom:1px solid #dee2e6}
td:first-child,th:first-child{text-align:left}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#495057}
.frame{fill:none;stroke:#ced4da}.grid{stroke:#e9ecef}.mark{stroke:#c92a2a;stroke-dasharray:4 3}
h2{margin-top:2.2rem}.key span{margin-right:1rem}
@media(prefers-color-scheme:dark){body{background:#16191d;color:#dee2e6}
svg text{fill:#adb5bd}.grid{stroke:#343a40}}
"""

HEADINGS = (
    "policy", "forecasts", "late", "over SLO", "GPU-hours", "x floor", "x oracle", "mean lag", "p50 s",
    "p99 s", "down s", "worker-s lost", "GPU use", "resizes", "reversals",
)  # fmt: skip


def as_page(verdict: Verdict, frontier: Frontier | None = None) -> str:
    """Figures, a Pareto plot, and per policy traffic, capacity and lag over time."""
    contest = verdict.contest
    title = f"Backtest of {contest.trace.name}"
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in verdict.notes)
    charts = "".join(_course(verdict, judged) for judged in verdict.judged)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style><h1>{html.escape(title)}</h1>"
        f"<p>{_plant(verdict)}</p><ul>{notes}</ul>{_table(verdict)}"
        "<h2>GPU-hours against late samples</h2>"
        "<p>To the right: GPU-hours over those of the floor. Upwards: the share of samples trained late; "
        f"0.001 % and less lie on the bottom.</p>{_pareto(verdict, frontier)}"
        f"{_across(frontier)}{charts}</html>\n"
    )


def _plant(verdict: Verdict) -> str:
    plant = verdict.contest.plant
    shown = plant.model_dump(mode="json", exclude_defaults=True)
    return html.escape(", ".join(f"{name} {value}" for name, value in shown.items()) or "default plant")


def _table(verdict: Verdict) -> str:
    head = "".join(f"<th>{name}</th>" for name in HEADINGS)
    rows = "".join(_row(judged) for judged in verdict.judged)
    floor = f"<tr><td>floor<td><td><td><td>{verdict.floor_gpu_hours:.1f}<td>1.00{'<td>' * 9}</tr>"
    return f"<table><tr>{head}</tr>{rows}{floor}{_oracle_row(verdict)}</table>"


def _oracle_row(verdict: Verdict) -> str:
    if verdict.oracle is None:
        return ""
    best = verdict.oracle.punctual
    ratio = best.gpu_hours / verdict.floor_gpu_hours if verdict.floor_gpu_hours > 0 else 0.0
    return (
        f"<tr><td>oracle<td><td>{best.late_share:.3%}<td><td>{best.gpu_hours:.1f}<td>{ratio:.2f}"
        f"{'<td>' * 9}</tr>"
    )


def _row(judged: Judged) -> str:
    figures = judged.figures
    oracle = "" if judged.over_oracle is None else f"{judged.over_oracle:.2f}"
    low, high = figures.late_share_interval
    cells = (
        html.escape(judged.choice.label), html.escape(judged.forecaster),
        f'<span title="90 % interval over days: {low:.3%} to {high:.3%}">{figures.late_share:.3%}</span>',
        f"{figures.over_slo_share:.2%}", f"{figures.gpu_hours:.1f}", f"{judged.over_floor:.2f}", oracle,
        f"{figures.mean_lag:,.0f}", f"{figures.p50_delay_s:.0f}", f"{figures.p99_delay_s:.0f}",
        f"{figures.downtime_s:,.0f}", f"{figures.worker_s_lost:,.0f}", f"{figures.gpu_utilisation:.1%}",
        str(figures.resizes), str(figures.reversals),
    )  # fmt: skip
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _pareto(verdict: Verdict, frontier: Frontier | None) -> str:
    groups: list[tuple[str, str, Sequence[tuple[float, float, str]]]] = []
    found: dict[str, list[tuple[float, float, str]]] = {}
    for judged in verdict.judged:
        point = (judged.over_floor, judged.figures.late_share, judged.choice.label)
        found.setdefault(judged.choice.name, []).append(point)
    if frontier is not None:
        for name, swept in frontier.points.items():
            found[name] = [(p.over_floor, p.late_share, p.label) for p in swept]
    for place, (name, points) in enumerate(found.items()):
        groups.append((name, COLOURS[place % len(COLOURS)], points))
    if verdict.oracle is not None:
        limit = [
            (
                p.gpu_hours / verdict.floor_gpu_hours,
                p.late_share,
                f"oracle at {p.price:.2g} GPU-s a late sample",
            )
            for p in verdict.oracle.points
        ]
        groups.append(("oracle", "#212529", limit))
    return scatter(groups)


def _across(frontier: Frontier | None) -> str:
    if frontier is None:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(ratio.policy)}<td>{_ratio(ratio.gpu_hours_at_equal_lateness)}"
        f"<td>{_ratio(ratio.late_share_at_equal_gpu_hours)}</tr>"
        for ratio in frontier.across
    )
    base = frontier.baseline
    return (
        f"<h2>Read across against {html.escape(base.label)}</h2>"
        f"<p>{base.late_share:.3%} late at {base.over_floor:.2f}x floor</p><table><tr><th>policy"
        f"<th>GPU-hours at equal lateness<th>late share at equal GPU-hours</tr>{rows}</table>"
    )


def _ratio(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.2f}x"


def _course(verdict: Verdict, judged: Judged) -> str:
    minutes = judged.run.minutes[:-1]
    days = len(minutes) / 1440
    curve = true_curve(verdict.contest.plant, verdict.contest.plant.most_workers)
    ready = np.minimum(minutes[:, at.M_READY] / 60, len(curve) - 1)
    capacity = np.interp(ready, np.arange(len(curve)), curve)
    traffic = Line("traffic", "#74c0fc", thinned(minutes[:, at.M_ARRIVED] / 60), fill=True)
    able = Line("capacity", "#2b8a3e", thinned(capacity, highest=False))
    lag = Line("lag", "#c2255c", thinned(minutes[:, at.M_OLDEST]))
    return (
        f"<h2>{html.escape(judged.choice.label)}</h2>"
        '<p class="key"><span>blue: traffic</span><span>green: capacity of the ready workers</span>'
        "<span>red: age of the oldest untrained sample; dashed: the SLO</span></p>"
        + time_chart([traffic, able], days=days, height=190, unit="/s")
        + time_chart([lag], days=days, height=110, unit=" s", mark=verdict.contest.plant.slo_s)
    )
