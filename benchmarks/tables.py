"""Results of many runs as Markdown tables and as one page a plant."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from statistics import fmean

from services.simulator.contest import Judged, Verdict
from services.simulator.drawing import scatter
from services.simulator.frontier import Frontier
from services.simulator.page import COLOURS, STYLE

HEAD = (
    "| plant | policy | late | over floor | over oracle | p99 delay | downtime | GPU use | resizes a week |"
)


def policy_table(results: Mapping[str, Sequence[Verdict]]) -> str:
    """Means over the traces, each with the same weight; those of a native minute apart and first."""
    parts = []
    every = next(iter(results.values()))
    groups = {
        "Traces with a native step of a minute or less": [v.contest.trace.is_native_minute for v in every],
        "All traces": [True] * len(every),
    }
    for title, chosen in groups.items():
        if not any(chosen):
            continue
        names = ", ".join(v.contest.trace.name for v, keep in zip(every, chosen, strict=True) if keep)
        parts.append(f"\n**{title}** ({names})\n\n{HEAD}\n|---|---|--:|--:|--:|--:|--:|--:|--:|")
        for plant, verdicts in results.items():
            parts += _rows(plant, [v for v, keep in zip(verdicts, chosen, strict=True) if keep])
    return "\n".join(parts) + "\n"


def flat_figures(results: Mapping[str, Sequence[Verdict]]) -> dict[str, float]:
    """`PLANT.POLICY.FIGURE`: means over the traces, each with the same weight."""
    flat: dict[str, float] = {}
    for plant, verdicts in results.items():
        for place, first in enumerate(verdicts[0].judged):
            runs = [verdict.judged[place] for verdict in verdicts]
            oracle = [run.over_oracle for run in runs if run.over_oracle is not None]
            figures = {
                "late_share": fmean(run.figures.late_share for run in runs),
                "over_floor": fmean(run.over_floor for run in runs),
                **({"over_oracle": fmean(oracle)} if oracle else {}),
                "gpu_hours": fmean(run.figures.gpu_hours for run in runs),
                "p99_delay_s": fmean(run.figures.p99_delay_s for run in runs),
                "downtime_s": fmean(run.figures.downtime_s for run in runs),
                "gpu_utilisation": fmean(run.figures.gpu_utilisation for run in runs),
                "resizes": fmean(run.figures.resizes for run in runs),
            }
            flat |= {f"{plant}.{first.choice.label}.{name}": value for name, value in figures.items()}
    return flat


def _rows(plant: str, verdicts: Sequence[Verdict]) -> list[str]:
    rows = []
    for place, judged in enumerate(verdicts[0].judged):
        rows.append(_row(plant, judged.choice.label, [v.judged[place] for v in verdicts], verdicts))
    if all(v.oracle is not None for v in verdicts):
        late = fmean(v.oracle.punctual.late_share for v in verdicts if v.oracle)
        replayed = fmean(v.oracle.punctual.gpu_hours / v.floor_gpu_hours for v in verdicts if v.oracle)
        bound = fmean(v.oracle.bound_gpu_hours(0.0) / v.floor_gpu_hours for v in verdicts if v.oracle)
        rows.append(f"| {plant} | *oracle* | {late:.3%} | {replayed:.3f} (bound {bound:.3f}) | | | | | |")
    return rows


def _row(plant: str, label: str, judged: Sequence[Judged], verdicts: Sequence[Verdict]) -> str:
    weeks = [len(v.course.scored.per_second) / 604_800 for v in verdicts]
    oracle = [j.over_oracle for j in judged if j.over_oracle is not None]
    cells = (
        f"{fmean(j.figures.late_share for j in judged):.3%}",
        f"{fmean(j.over_floor for j in judged):.2f}",
        f"{fmean(oracle):.2f}" if oracle else "",
        f"{fmean(j.figures.p99_delay_s for j in judged):,.0f} s",
        f"{fmean(j.figures.downtime_s for j in judged):,.0f} s",
        f"{fmean(j.figures.gpu_utilisation for j in judged):.0%}",
        f"{fmean(j.figures.resizes / w for j, w in zip(judged, weeks, strict=True)):,.0f}",
    )
    return f"| {plant} | {label} | " + " | ".join(cells) + " |"


def frontier_table(plant: str, frontier: Frontier) -> str:
    """The read-across of every policy on one plant."""
    base = frontier.baseline
    lines = [
        f"\n**Frontiers on {plant}**, against {base.label}: "
        f"{base.late_share:.3%} late at {base.over_floor:.2f}x floor\n",
        "| policy | GPU-hours at equal lateness | late share at equal GPU-hours | late @ over floor |",
        "|---|--:|--:|---|",
    ]
    for ratio in frontier.across:
        points = ", ".join(f"{p.late_share:.2%} @ {p.over_floor:.2f}" for p in frontier.points[ratio.policy])
        cells = (_ratio(ratio.gpu_hours_at_equal_lateness), _ratio(ratio.late_share_at_equal_gpu_hours))
        lines.append(f"| {ratio.policy} | {cells[0]} | {cells[1]} | {points} |")
    return "\n".join(lines) + "\n"


def _ratio(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.2f}x"


def plant_page(plant: str, verdicts: Sequence[Verdict], frontier: Frontier | None) -> str:
    """A Pareto plot a trace, and the pooled frontier where there is one."""
    parts = [f"<h1>{html.escape(plant)}</h1>"]
    if frontier is not None:
        groups = [
            (kind, COLOURS[i % len(COLOURS)], [(p.over_floor, p.late_share, p.label) for p in points])
            for i, (kind, points) in enumerate(frontier.points.items())
        ]
        parts.append(f"<h2>All traces pooled</h2>{scatter(groups)}")
    parts += [f"<h2>{html.escape(v.contest.trace.name)}</h2>{_pareto(v)}" for v in verdicts]
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(plant)}</title>'
    return f"{head}<style>{STYLE}</style>{''.join(parts)}</html>\n"


def _pareto(verdict: Verdict) -> str:
    kinds: dict[str, list[tuple[float, float, str]]] = {}
    for judged in verdict.judged:
        point = (judged.over_floor, judged.figures.late_share, judged.choice.label)
        kinds.setdefault(judged.choice.kind, []).append(point)
    return scatter([(k, COLOURS[i % len(COLOURS)], p) for i, (k, p) in enumerate(kinds.items())])
