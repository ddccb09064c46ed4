"""`penstock job what-if`: what other terms would cost, before they are set."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from services.cli.client import WHAT_IF_TIMEOUT_S
from services.cli.forecast import duration_s
from services.cli.job_shown import Name, job_path, terms_of
from services.cli.shown import SERVER, AsJson, CaFile, Server, asking_server, share, show, table_of, waiting


def what_if(
    *,
    name: Name,
    fresh_within: Annotated[str | None, typer.Option(help="The freshness to try, as 30s or 2m.")] = None,
    late_share: Annotated[float | None, typer.Option(help="The share that may be late, as 0.01.")] = None,
    workers_min: Annotated[int | None, typer.Option(min=0, help="The least workers to try.")] = None,
    workers_max: Annotated[int | None, typer.Option(min=1, help="The most workers to try.")] = None,
    also_within: Annotated[
        list[str] | None, typer.Option(help="Another freshness to try as well; repeatable.")
    ] = None,
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """What other terms would cost: predicted late share and GPU-hours a day. Changes nothing."""
    bounds = {"workers_min": workers_min, "workers_max": workers_max}
    with asking_server("job what-if", server, ca_file) as client:
        known = client.get(job_path(name)).document
        body = {
            "slo": terms_of(known, fresh_within, late_share),
            **{k: v for k, v in bounds.items() if v is not None},
            "fresh_within_s": [duration_s(text) for text in also_within or ()],
        }
        with waiting("playing recent traffic again"):
            reply = client.ask("POST", job_path(name, "/what-if"), body, timeout_s=WHAT_IF_TIMEOUT_S)
        show(reply.document, as_json, _curve)


def _curve(d: dict[str, Any]) -> Table:
    named = [("in force", d["in_force"]), ("asked", d["asked"])]
    named += [("asked, within", point) for point in d["by_freshness"]]
    named += [(point["setting"], point) for point in d["curve"]]
    rows = [
        (
            label,
            p["fresh_within_s"],
            share(p["late_share"]),
            p["gpu_hours_per_day"],
            p["workers_mean"],
            p["workers_max"],
        )
        for label, p in named
    ]
    return table_of(("terms", "promised s", "late", "GPU-hours/day", "workers, mean", "at most"), rows)
