"""`penstock job`: jobs of a running controller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from services.cli import job_actions, job_readings, job_safety, job_what_if
from services.cli.client import Client, Refused
from services.cli.job_file import read_document
from services.cli.job_shown import (
    IfVersion,
    Name,
    etag_of,
    job_facts,
    job_path,
    late_so_far,
    state_of,
)
from services.cli.shown import SERVER, AsJson, CaFile, Server, asking_server, facts, show, table_of
from services.yaml_file import YamlUnreadable

job = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
"""The group; each command is a function below, or in a module of its own."""


@job.callback()
def group() -> None:
    """See and change the jobs of a running controller.

    The server comes from --server or PENSTOCK_SERVER, the token from PENSTOCK_TOKEN. Exit codes:
    1 refused, 2 wrong usage, 3 the server does not answer, 4 the token may not.
    """


def _jobs(documents: list[dict[str, Any]]) -> Table:
    columns = ("job", "state", "traffic/s", "lag s", "promised s", "ready", "planned", "late", "mode")
    return table_of(
        columns,
        [
            (
                *(d["id"], state_of(d), d["rate_per_s"], d["lag_s"], d["fresh_within_s"]),
                *(d["ready"], d["planned"], late_so_far(d), d["mode"]),
            )
            for d in documents
        ],
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
        show(client.get(job_path(name)).document, as_json, job_facts)


job.command("plan")(job_readings.plan)
job.command("forecast")(job_readings.forecast)
job.command("what-if")(job_what_if.what_if)
job.command("safety")(job_safety.safety)


@job.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="YAML with `jobs`, as in the settings file.")],
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Make the jobs of a file, or replace them where they are there. Jobs that are not in it stay."""
    jobs = _jobs_of(file)
    done: list[dict[str, str]] = []
    with asking_server("job apply", server, ca_file) as client:
        try:
            for name, settings in jobs.items():
                done.append({"job": name, "done": _applied(client, name, settings)})
        finally:
            if done:  # before a job was refused, too
                show(done, as_json, _applied_jobs)


def _jobs_of(file: Path) -> dict[str, dict[str, Any]]:
    try:
        content = read_document(file)
    except YamlUnreadable as error:
        raise typer.BadParameter(str(error)) from error
    jobs = content.get("jobs") if isinstance(content, dict) else None
    if not isinstance(jobs, dict) or not jobs:
        raise typer.BadParameter(f"{file} has no `jobs`")
    for name, settings in jobs.items():
        if not isinstance(settings, dict):
            raise typer.BadParameter(f"{file}: job {name} has no settings; it needs at least its `topic`")
    return jobs


def _applied_jobs(rows: list[dict[str, str]]) -> Table:
    return table_of(("job", "done"), [(row["job"], row["done"]) for row in rows])


def _applied(client: Client, name: str, settings: dict[str, Any]) -> str:
    try:
        return _put(client, name, settings)
    except Refused as error:
        raise Refused(error.status, f"job {name}: {error}") from error


def _put(client: Client, name: str, settings: dict[str, Any]) -> str:
    try:
        known = client.get(job_path(name))
    except Refused as error:
        if error.status != 404:
            raise
        client.ask("POST", "/v1/jobs", {**settings, "id": name})
        return "made"
    after = client.ask("PUT", job_path(name), settings, etag=known.etag)
    return "unchanged" if after.etag == known.etag else "replaced"


job.command("slo")(job_actions.slo)
job.command("override")(job_actions.override)
job.command("pause")(job_actions.pause)
job.command("resume")(job_actions.resume)
job.command("mode")(job_actions.mode)
job.command("rollback")(job_actions.rollback)


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
        path = job_path(name, f"?forget={json.dumps(forget)}")
        reply = client.ask("DELETE", path, etag=etag_of(if_version))
        show(reply.document, as_json, facts)
