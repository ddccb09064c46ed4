"""What operators do to a running job: promise, override, pause, resume, act or recommend, roll back."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from services.cli.forecast import duration_s
from services.cli.job_shown import IfVersion, Name, etag_of, job_path, show_changed, terms_of
from services.cli.shown import SERVER, AsJson, CaFile, Server, asking_server


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
        known = client.get(job_path(name))
        terms = terms_of(known.document, fresh_within, late_share)
        etag = known.etag if if_version is None else etag_of(if_version)
        show_changed(client.ask("PUT", job_path(name, "/slo"), terms, etag=etag), as_json)


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
            show_changed(client.ask("DELETE", job_path(name, "/override")), as_json)
            return
        body = {"workers": workers, "lasting_s": duration_s(lasting), "reason": reason}
        show_changed(client.ask("POST", job_path(name, "/override"), body), as_json)


def pause(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why, for the audit log.")] = "",
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Leave the pool as it is until `resume`."""
    with asking_server("job pause", server, ca_file) as client:
        show_changed(client.ask("POST", job_path(name, "/pause"), {"reason": reason}), as_json)


def resume(name: Name, server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """Size the pool again."""
    with asking_server("job resume", server, ca_file) as client:
        show_changed(client.ask("POST", job_path(name, "/resume")), as_json)


def mode(
    name: Name,
    wanted: Annotated[Literal["act", "recommend"], typer.Argument(metavar="act|recommend")],
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """`act` carries decisions out; `recommend` only records them."""
    with asking_server("job mode", server, ca_file) as client:
        show_changed(client.ask("POST", job_path(name, "/mode"), {"mode": wanted}), as_json)


def rollback(
    *,
    name: Name,
    reason: Annotated[str, typer.Option(help="Why, for the audit log.")],
    models: Annotated[
        str | None, typer.Option(help="The version that is bad; the one in force when not given.")
    ] = None,
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Go back to the forecasting models before those in force, or to light ones, until better are trained."""
    with asking_server("job rollback", server, ca_file) as client:
        if models is None:
            training = client.get(job_path(name, "/forecast")).document["training"]
            models = training["version"] if training else ""
        if not models:
            raise typer.BadParameter(f"job {name} has no trained models in force")
        body = {"version": models, "reason": reason}
        show_changed(client.ask("POST", job_path(name, "/forecast/rollback"), body), as_json)
