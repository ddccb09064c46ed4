"""`penstock forecast`: how good each model, and what is served, would have been on a trace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from forecasting.calendar import Calendar
from forecasting.errors import ForecastError
from forecasting.history import TrafficHistory
from services.forecaster.backtesting import BacktestPlan, Outcome, run_backtest
from services.forecaster.report import COLUMNS, rows_of, write_html, write_json, write_predictions
from services.forecaster.trace import TraceInvalid, read_trace

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_LONGEST_S = 100 * 366 * 86_400.0
"""Beyond any use, and within the calendar."""


def duration_s(text: str) -> float:
    """Seconds in `90s`, `5m`, `1h`, `1d`, `1w`, or a plain number of seconds.

    >>> duration_s("5m"), duration_s("1.5h"), duration_s("20")
    (300.0, 5400.0, 20.0)
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([smhdw]?)\s*", text)
    try:
        value = float(found.group(1)) * _UNITS_S.get(found.group(2), 1.0) if found else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value <= _LONGEST_S:
        raise typer.BadParameter(f"{text[:50]!r} is no duration; write 90s, 5m, 1h, 1d or 1w")
    return value


def forecast(
    trace: Annotated[
        Path, typer.Argument(help="CSV with `timestamp,rate`: ISO 8601 or seconds; per second.")
    ],
    *,
    horizon: Annotated[str, typer.Option(help="How far ahead to forecast.")] = "1h",
    step: Annotated[str | None, typer.Option(help="Width of a bin; the trace's own when not given.")] = None,
    season: Annotated[str, typer.Option(help="The period after which traffic repeats.")] = "1d",
    test_days: Annotated[
        float | None, typer.Option(help="Seasons to test on; a quarter of the trace, at most 7, by default.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="A model to train: regression, perceptron, window, steady-window, shared-window, boosting, "
            "patchtst, nhits, fedformer, seq2seq or another of neuralforecast; repeat for more. By default "
            "all that are cheap and installed."
        ),
    ] = None,
    holiday: Annotated[list[str] | None, typer.Option(help="A day off, YYYY-MM-DD; repeat for more.")] = None,
    timezone: Annotated[str, typer.Option(help="Where the traffic is made, as in Europe/Paris.")] = "UTC",
    train_cpu_s: Annotated[float, typer.Option(help="CPU-seconds to train a network.")] = 60.0,
    json: Annotated[Path | None, typer.Option(help="Write all figures here.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Write model,issued_at,at,actual,q50,q95 here.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the table and a picture here.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of training.")] = 0,
) -> None:
    """Rolling-origin backtest of every model and of what the selector would have served.

    Scores the rate at leads of 3, 10, 30 and 60 minutes and the highest rate over the
    quarter of an hour after each (in proportion for other horizons). Nothing after a
    forecast's issue was seen by it, nor by training.
    """

    if not train_cpu_s > 0:
        raise typer.BadParameter(f"--train-cpu-s is {train_cpu_s:g}; give a number of CPU-seconds above 0")
    try:
        plan = BacktestPlan(
            horizon_s=duration_s(horizon),
            season_s=duration_s(season),
            test_days=test_days,
            models=tuple(model or ()),
            calendar=Calendar.of(holiday or (), timezone),
            network_cpu_s=train_cpu_s,
            seed=seed,
        )
        _run(Console(), trace, plan, step, json=json, predictions=predictions, html=html)
    except (TraceInvalid, ForecastError, OSError, ValueError) as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(2) from error


def _run(
    console: Console,
    trace: Path,
    plan: BacktestPlan,
    step: str | None,
    *,
    json: Path | None,
    predictions: Path | None,
    html: Path | None,
) -> None:

    history, mended = read_trace(trace, step_s=duration_s(step) if step else None)
    for note in mended:
        console.print(f"note: {note}", style="yellow")
    tested = _with_progress(console, history, plan)
    _show(console, tested, trace)
    if json is not None:
        write_json(tested, json)
    if predictions is not None:
        write_predictions(tested, history, predictions)
    if html is not None:
        write_html(tested, history, html, title=f"Forecasts of {trace.stem}")


def _with_progress(console: Console, history: TrafficHistory, plan: BacktestPlan) -> Outcome:

    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True
    ) as progress:
        task = progress.add_task("reading", total=1.0)
        return run_backtest(
            history,
            plan,
            lambda stage, share: progress.update(task, description=stage, completed=share),
        )


def _show(console: Console, tested: Outcome, trace: Path) -> None:
    title = f"{trace.stem}: {len(tested.test.origins)} forecasts tested"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, padding=0)
    for i, column in enumerate(COLUMNS):
        # The name must stay whole in 80 columns: it is what `--model` takes.
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in rows_of(tested):
        table.add_row(*row)
    console.print(table)
    for name, why in tested.skipped.items():
        console.print(f"{name} was left out: {why}", style="yellow", markup=False)
    led = tested.test.leaders
    shares = ", ".join(f"{name} {led.count(name) / len(led):.0%}" for name in sorted(set(led)))
    console.print(f"Led the mix: {shares}.", highlight=False)
