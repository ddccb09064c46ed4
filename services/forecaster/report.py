"""Backtests for people and for machines: table, JSON, CSV, a picture in HTML."""

from __future__ import annotations

import csv
import html
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from forecasting.evaluation import SERVED, Backtest, scored_leads
from forecasting.grid import RATE, Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.selector import MEDIAN, UPPER
from services.forecaster.backtesting import LIGHT, UNTRAINED, Outcome

COLUMNS = ("model", "q95 pinball", "over best light", "rMAE", "coverage", "volume", "silent", "train CPU-s")


def rows_of(tested: Outcome) -> list[list[str]]:
    """The table: what was served first, then every model from the best."""
    best = min(result.pinball for name, result in tested.results.items() if name in LIGHT)
    best_mae = min(result.mae for name, result in tested.results.items() if name in LIGHT)
    ordered = sorted(tested.results.values(), key=lambda r: (r.model != SERVED, r.pinball))
    return [
        [
            result.model,
            f"{100 * result.pinball:.2f} %",
            f"{result.pinball / max(best, 1e-300):.3f}",
            f"{result.mae / max(best_mae, 1e-300):.3f}",
            f"{result.coverage:.3f}",
            f"{result.volume:.2f}",
            f"{100 * result.silent:.0f} %",
            f"{tested.cpu_s[result.model]:.1f}" if result.model in tested.cpu_s else "",
        ]
        for result in ordered
    ]


def summary_of(tested: Outcome) -> dict[str, Any]:
    """Everything in the table, unrounded."""
    light = [name for name in LIGHT if name in tested.results]
    simple = [name for name in UNTRAINED if name in tested.results]
    return {
        "models": {
            name: {
                "q95_pinball": result.pinball,
                "mae": result.mae,
                "coverage": result.coverage,
                "volume": result.volume,
                "silent": result.silent,
                "train_cpu_s": tested.cpu_s.get(name),
                "converged": tested.converged.get(name),
            }
            for name, result in tested.results.items()
        },
        "served_over_best_light": {
            "q95_pinball": tested.ratio("pinball", among=light),
            "mae": tested.ratio("mae", among=light),
        },
        "served_over_best_untrained": {
            "q95_pinball": tested.ratio("pinball", among=simple),
            "mae": tested.ratio("mae", among=simple),
        },
        "leaders": {name: tested.test.leaders.count(name) for name in sorted(set(tested.test.leaders))},
        "origins": len(tested.test.origins),
        "trained_to": iso(tested.trained_to_s),
        "skipped": tested.skipped,
    }


def write_json(tested: Outcome, path: Path) -> None:
    path.write_text(json.dumps(summary_of(tested), indent=2) + "\n", encoding="utf-8")


def write_predictions(tested: Outcome, history: TrafficHistory, path: Path) -> None:
    """`model,issued_at,at,actual,q50,q95`: every bin of every forecast, for anyone to score again.

    `issued_at` is the close of the last bin seen; `at` the start of the target bin.
    """
    test, grid = tested.test, tested.test.grid
    bins = np.arange(grid.steps)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("model", "issued_at", "at", "actual", "q50", "q95"))
        for model, quantiles in test.said.items():
            for origin, said in zip(test.origins, quantiles, strict=True):
                if np.isnan(said[RATE, 0, UPPER]):
                    continue
                middle = np.interp(bins, grid.leads, said[RATE, :, MEDIAN])
                upper = np.interp(bins, grid.leads, said[RATE, :, UPPER])
                issued_at = iso(history.start_s + float(origin) * grid.step_s)
                for i in bins[: max(0, len(history.rates) - int(origin))]:
                    came = history.rates[origin + i]
                    if not np.isnan(came):
                        at = iso(history.start_s + float(origin + i) * grid.step_s)
                        writer.writerow(
                            (model, issued_at, at, f"{came:.6g}", f"{middle[i]:.6g}", f"{upper[i]:.6g}")
                        )


def write_html(tested: Outcome, history: TrafficHistory, path: Path, *, title: str) -> None:
    """The table and a picture of what was served half a horizon ahead, in one file."""
    grid = tested.test.grid
    ahead_s = float(grid.leads[_pictured(grid)]) * grid.step_s
    head = "".join(f"<th>{html.escape(column)}</th>" for column in COLUMNS)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows_of(tested)
    )
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<title>{html.escape(title)}</title>"
        "<style>body{font:15px system-ui;margin:2em;max-width:70em}td,th{padding:.2em .8em;text-align:right}"
        "td:first-child,th:first-child{text-align:left}tr:nth-child(2){font-weight:600}</style>"
        f"<h1>{html.escape(title)}</h1>{_picture(tested.test, history)}"
        "<p>Black: what came. "
        f"Blue: the median served {ahead_s:g} s ahead. Shaded: up to the 0.95 quantile.</p>"
        f"<table><tr>{head}</tr>{body}</table></html>\n",
        encoding="utf-8",
    )


def _pictured(grid: Grid) -> int:
    """The lead that is drawn: 30 units, or what is nearest."""
    return int(scored_leads(grid)[2])


def _picture(test: Backtest, history: TrafficHistory) -> str:
    lead = _pictured(test.grid)
    came, said = test.came[:, RATE, lead], test.said[SERVED][:, RATE, lead]
    keep = slice(None, None, max(1, len(came) // 1500))
    came, middle, upper = came[keep], said[keep, MEDIAN], said[keep, UPPER]
    top = float(np.nanmax(np.concatenate([came, upper]))) or 1.0
    width, height = 1100, 320

    def points(values: Rates) -> str:
        xs = np.linspace(0, width, len(values))
        pairs = zip(xs, height - height * values / top, strict=True)
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs if np.isfinite(y))

    area = f"0,{height} {points(upper)} {width},{height}"
    span_s = test.grid.step_s * float(test.origins[-1] - test.origins[0])
    label = f"{iso(history.start_s + float(test.origins[0]) * test.grid.step_s)}, {span_s / 86_400:.1f} days"
    return (
        f'<svg viewBox="0 0 {width} {height + 20}" role="img" aria-label="{html.escape(label)}">'
        f'<polygon points="{area}" fill="#bcd7f5"/>'
        f'<polyline points="{points(came)}" fill="none" stroke="#222" stroke-width="1"/>'
        f'<polyline points="{points(middle)}" fill="none" stroke="#1465bb" stroke-width="1"/>'
        f'<text x="4" y="{height + 15}" font-size="12">{html.escape(label)}; top = {top:.4g}/s</text></svg>'
    )


def iso(at_s: float) -> str:
    """As times are written in files, in UTC."""
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
