"""`penstock job`: jobs of a running controller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from services.cli.client import WHAT_IF_TIMEOUT_S, Client, Refused, Reply, quoted
from services.cli.forecast import duration_s
from services.cli.job_safety import safety
from services.cli.shown import (
    SERVER,
    AsJson,
    CaFile,
    Server,
    asking_server,
    at,
    facts,
    share,
    show,
    table_of,
)

job = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
"""The group; each command is a function below, or in a module of its own."""
job.command("safety")(safety)

Name = Annotated[str, typer.Argument(metavar="JOB", help="The job's name.")]
IfVersion = Annotated[
    int | None, typer.Option(help="Only if the job is at this version; by default whatever it is at.")
]


@job.callback()
def group() -> None:
    """See and change the jobs of a running controller.

    The server comes from --server or PENSTOCK_SERVER, the token from PENSTOCK_TOKEN. Exit codes:
    1 refused, 2 wrong usage, 3 the server does not answer, 4 the token may not.
    """


def _path(name: str, part: str = "") -> str:
    return f"/v1/jobs/{quoted(name)}{part}"


def _etag(version: int | None) -> str:
    return "*" if version is None else f'"{version}"'


def _state(document: dict[str, Any]) -> Text:
    if document["paused"]:
        return Text("paused", "yellow")
    if document["degraded"]:
        return Text("degraded", "bold red")
    late = document["lag_s"] is not None and document["lag_s"] > document["fresh_within_s"]
    return Text("late", "bold red") if late else Text("on time", "green")


def _jobs(documents: list[dict[str, Any]]) -> Table:
    columns = ("job", "state", "traffic/s", "lag s", "promised s", "ready", "planned", "late", "mode")
    return table_of(
        columns,
        [
            (
                *(d["id"], _state(d), d["rate_per_s"], d["lag_s"], d["fresh_within_s"]),
                *(d["ready"], d["planned"], share(d["late_share"]), d["mode"]),
            )
            for d in documents
        ],
    )


def _one(d: dict[str, Any]) -> Table:
    override = d["override"]
    return facts(
        {
            "job": f"{d['id']} (version {d['version']})",
            "changed": f"{at(d['changed_at_s'])} by {d['changed_by']}",
            "state": _state(d),
            "trouble": d["trouble"],
            "topic": f"{d['topic']}, group {d['group']}",
            "promise": f"{d['fresh_within_s']:g} s, {share(d['late_share_target'])} may be late",
            "late so far": share(d["late_share"]),
            "traffic": None
            if d["rate_per_s"] is None
            else f"{d['rate_per_s']:,.0f}/s, lag {d['lag_s']:.1f} s",
            "workers": f"{d['ready']} ready, {d['requested']} requested, {d['planned']} planned "
            f"(allowed {d['workers_min']} to {d['workers_max']})",
            "mode": d["mode"],
            "paused": d["paused"] and f"by {d['paused']['by']}: {d['paused']['reason'] or 'no reason given'}",
            "override": override and f"{override['workers']} workers until {at(override['until_s'])}",
            "why": override and f"{override['reason']} ({override['by']})",
        }
    )


@job.command("list")
def list_jobs(server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """All jobs and how they do."""
    with asking_server("job list", server, ca_file) as client:
        show(client.get("/v1/jobs").document, as_json, _jobs)


@job.command("show")
def show_job(name: Name, server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """One job: its definition and how it does."""
    with asking_server("job show", server, ca_file) as client:
        show(client.get(_path(name)).document, as_json, _one)


@job.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="YAML with `jobs`, as in the settings file.")],
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Make the jobs of a file, or replace them where they are there. Jobs that are not in it stay."""
    try:
        jobs = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("jobs")
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}") from error
    if not isinstance(jobs, dict) or not jobs:
        raise typer.BadParameter(f"{file} has no `jobs`")
    with asking_server("job apply", server, ca_file) as client:
        done = [
            {"job": name, "done": _applied(client, str(name), settings)} for name, settings in jobs.items()
        ]
        show(done, as_json, lambda rows: table_of(("job", "done"), [(r["job"], r["done"]) for r in rows]))


def _applied(client: Client, name: str, settings: Any) -> str:
    try:
        known = client.get(_path(name))
    except Refused as error:
        if error.status != 404:
            raise
        client.ask("POST", "/v1/jobs", {**settings, "id": name})
        return "made"
    after = client.ask("PUT", _path(name), settings, etag=known.etag)
    return "unchanged" if after.etag == known.etag else "replaced"


def _changed(reply: Reply, as_json: bool) -> None:
    show(reply.document, as_json, _one)


@job.command("slo")
def slo(
    *,
    name: Name,
    fresh_within: Annotated[str | None, typer.Option(help="The freshness promised, as 30s or 2m.")] = None,
    late_share: Annotated[
        float | None, typer.Option(help="The share of samples that may be late, as 0.01.")
    ] = None,
    if_version: IfVersion = None,
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Promise another freshness. `penstock job what-if` tells what it would cost."""
    with asking_server("job slo", server, ca_file) as client:
        known = client.get(_path(name))
        terms = _terms(known.document, fresh_within, late_share)
        etag = known.etag if if_version is None else _etag(if_version)
        _changed(client.ask("PUT", _path(name, "/slo"), terms, etag=etag), as_json)


def _terms(known: dict[str, Any], fresh_within: str | None, late_share: float | None) -> dict[str, float]:
    return {
        "fresh_within_s": known["fresh_within_s"] if fresh_within is None else duration_s(fresh_within),
        "late_share_target": known["late_share_target"] if late_share is None else late_share,
    }


@job.command("plan")
def plan(name: Name, server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """The plan in force, why, what binds it, and what other sizes would mean."""
    with asking_server("job plan", server, ca_file) as client:
        show(client.get(_path(name, "/plan")).document, as_json, _plan)


def _plan(d: dict[str, Any]) -> Table:
    whole = Table.grid()
    numbers = ", ".join(f"{key} {value:,.4g}" for key, value in d["numbers"].items() if value is not None)
    head = {
        "workers": f"{d['planned']} planned, {d['requested']} requested before, {d['ready']} ready",
        "reason": d["reason"],
        "why": " ".join([d["why"], *d["notes_in_words"]]),
        "binding": d["binding"],
        "forecast": _forecast_used(d["forecast"]),
        "would change it": " ".join(d["would_change"]),
        "numbers": numbers,
        "decision": f"{d['id']} at {at(d['at_s'])}",
    }
    whole.add_row(facts(head))
    rows = [
        (
            f"{o['workers']}{' *' if o['workers'] == d['planned'] else ''}",
            *(o["capacity_per_s"], share(o["utilisation_now"]), share(o["utilisation_peak"])),
            "grows" if o["drain_s"] is None else o["drain_s"],
        )
        for o in d["alternatives"]
    ]
    whole.add_row("")
    whole.add_row(table_of(("workers", "can train/s", "load now", "load at peak", "backlog gone in s"), rows))
    if d["candidates"]:
        weighed = [
            (c["size"], c["workers"], c["cost_worker_s"], share(c["late_share"])) for c in d["candidates"]
        ]
        whole.add_row("")
        whole.add_row(table_of(("weighed", "workers", "cost in worker-s", "late"), weighed))
    return whole


def _forecast_used(forecast: dict[str, Any] | None) -> str:
    if forecast is None:
        return "none"
    scored = "" if forecast["score"] is None else f", score {forecast['score']:.3g}"
    kept = "" if forecast["heeded"] else ", too far off lately to be heeded"
    return f"{forecast['model']} of {at(forecast['issued_at_s'])}{scored}{kept}"


@job.command("forecast")
def forecast(name: Name, server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """The traffic that is forecast, and how good the forecast has been."""
    with asking_server("job forecast", server, ca_file) as client:
        show(client.get(_path(name, "/forecast")).document, as_json, _forecast)


def _forecast(d: dict[str, Any]) -> Table:
    levels = sorted(d["paths"], key=float)
    steps = len(d["paths"][levels[0]])
    every = max(1, steps // 20)
    rows = [
        (at(d["issued_at_s"] + (i + 0.5) * d["step_s"]), *(d["paths"][level][i] for level in levels))
        for i in range(0, steps, every)
    ]
    whole = Table.grid()
    whole.add_row(facts({"model": d["model"], "score": d["score"], "trouble": d["trouble"]}))
    whole.add_row(table_of(("at (UTC)", *(f"{float(level):.0%}" for level in levels)), rows))
    return whole


@job.command("what-if")
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
        known = client.get(_path(name)).document
        body = {
            "slo": _terms(known, fresh_within, late_share),
            **{k: v for k, v in bounds.items() if v is not None},
            "fresh_within_s": [duration_s(text) for text in also_within or ()],
        }
        with Console(stderr=True).status("playing recent traffic again ..."):
            reply = client.ask("POST", _path(name, "/what-if"), body, timeout_s=WHAT_IF_TIMEOUT_S)
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


@job.command("override")
def override(
    *,
    name: Name,
    workers: Annotated[int | None, typer.Argument(min=0, help="The size to hold.")] = None,
    lasting: Annotated[str, typer.Option("--for", help="How long it holds, as 30m or 2h.")] = "1h",
    reason: Annotated[str, typer.Option(help="Why, for the audit log.")] = "",
    end: Annotated[bool, typer.Option("--end", help="Give the size back to the rule.")] = False,
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Set the pool's size by hand, until it expires."""
    if end == (workers is not None):
        raise typer.BadParameter("give a number of workers, or --end")
    if not end and not reason:
        raise typer.BadParameter("say why with --reason")
    with asking_server("job override", server, ca_file) as client:
        if end:
            _changed(client.ask("DELETE", _path(name, "/override")), as_json)
            return
        body = {"workers": workers, "lasting_s": duration_s(lasting), "reason": reason}
        _changed(client.ask("POST", _path(name, "/override"), body), as_json)


@job.command("pause")
def pause(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why, for the audit log.")] = "",
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Leave the pool as it is until `resume`."""
    with asking_server("job pause", server, ca_file) as client:
        _changed(client.ask("POST", _path(name, "/pause"), {"reason": reason}), as_json)


@job.command("resume")
def resume(name: Name, server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """Size the pool again."""
    with asking_server("job resume", server, ca_file) as client:
        _changed(client.ask("POST", _path(name, "/resume")), as_json)


@job.command("mode")
def mode(
    name: Name,
    wanted: Annotated[Literal["act", "recommend"], typer.Argument(metavar="act|recommend")],
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """`act` carries decisions out; `recommend` only records them."""
    with asking_server("job mode", server, ca_file) as client:
        _changed(client.ask("POST", _path(name, "/mode"), {"mode": wanted}), as_json)


@job.command("delete")
def delete(
    *,
    name: Name,
    forget: Annotated[bool, typer.Option(help="Delete the ledger and the history too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_version: IfVersion = None,
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Delete a job: its workers drain and stop. Says what becomes of ledger and history."""
    if not yes:
        typer.confirm(f"Delete {name}? Its workers will drain and stop.", abort=True, err=True)
    with asking_server("job delete", server, ca_file) as client:
        path = _path(name, f"?forget={json.dumps(forget)}")
        reply = client.ask("DELETE", path, etag=_etag(if_version))
        show(reply.document, as_json, facts)
