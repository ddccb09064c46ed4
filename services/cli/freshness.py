"""`penstock freshness`: what training late costs, on a log of one's own."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from services.cli.forecast import duration_s
from services.samples.interactions import Interactions, LogInvalid


def freshness(
    *,
    samples: Annotated[
        Path, typer.Option(help="CSV: timestamp,label, then ids, and numbers named NAME:number.")
    ],
    delays: Annotated[str, typer.Option(help="Training delays to try, such as 0,1m,10m,1h.")] = "0,1m,10m,1h",
    numeric: Annotated[list[str] | None, typer.Option(help="A column that is a number. Repeatable.")] = None,
    loss: Annotated[
        float | None,
        typer.Option(min=0.0, help="AUC that may be given away: tells the promise that keeps it."),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the figures here.")] = None,
) -> None:
    """AUC against training delay: each sample is predicted when it comes, and learned from so much later.

    The whole log is played once for each delay, with the trainer's own model; the AUC is that of its
    second half, the same samples for every delay.

    Example:

      penstock freshness --samples clicks.csv --delays 0,1m,10m,1h --loss 0.002 --json freshness.json
    """
    # The tables bring a compiler along: `penstock --help` must not wait for it.
    from services.trainer.in_process import auc_by_lateness, delay_that_costs  # noqa: PLC0415

    try:
        late_s = [0.0 if text.strip() == "0" else duration_s(text.strip()) for text in delays.split(",")]
        log = Interactions.read(samples, numeric=numeric or [])
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("playing the log", total=1.0)
            found = auc_by_lateness(
                log.samples, late_s, tell=lambda share: progress.update(task, completed=share)
            )
    except (LogInvalid, ValueError) as error:
        typer.echo(f"penstock freshness: {error}", err=True)
        raise typer.Exit(2) from error
    best = max(told.auc for told in found)
    typer.echo(f"{'delay':>10} {'AUC':>8} {'of the best':>12}")
    for text, told in zip(delays.split(","), found, strict=True):
        share = (told.auc - 0.5) / (best - 0.5) if best > 0.5 else float("nan")
        typer.echo(f"{text.strip():>10} {told.auc:8.4f} {share:12.1%}")
    if loss is not None:
        within_s = delay_that_costs(loss, found)
        typer.echo(
            f"no delay tried costs {loss:g} of AUC; try longer ones"
            if within_s is None
            else f"a delay of {within_s:.0f} s costs {loss:g} of AUC: slo.fresh_within_s: {within_s:.0f}"
        )
    if json is not None:
        figures = {"samples": len(log.samples), "auc": {f"{told.late_s:g}": told.auc for told in found}}
        json.write_text(json_module.dumps(figures, indent=2) + "\n", encoding="utf-8")
