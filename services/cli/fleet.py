"""`penstock fleet`: the GPUs that the jobs of a running controller share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml
from rich.console import Console

from services.cli import fleet_tables as tables
from services.cli.client import WHAT_IF_TIMEOUT_S
from services.cli.job_file import read_document
from services.cli.shown import SERVER, AsJson, CaFile, Server, asking_server, show, waiting
from services.control.errors import ControlError
from services.controller.fleet_source import nodes_from
from services.settings.fleet import PlatformSettings
from services.yaml_file import YamlUnreadable

fleet = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
"""The group; each command is a function below."""

REFUSED = 1
"""Exit code for a job that may not come in, now or at all."""


@fleet.callback()
def group() -> None:
    """See how the GPUs are shared, and what a new job or fewer nodes would do.

    The server comes from --server or PENSTOCK_SERVER, the token from PENSTOCK_TOKEN. Exit codes:
    1 refused, 2 wrong usage, 3 the server does not answer, 4 the token may not.
    """


@fleet.command("show")
def show_fleet(*, server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """The GPUs there are, what each job asked for, what it has, and what bound it."""
    with asking_server("fleet show", server, ca_file) as client:
        document = client.get("/v1/fleet").document["share"]
    if document is None:
        typer.echo("penstock fleet show: no fleet is configured; see docs/fleet.md", err=True)
        raise typer.Exit(REFUSED)
    if as_json:
        return show(document, as_json, tables.types)
    console = Console()
    gap = f", {document['gap']:.2%} from the best at most" if document["method"] == "programme" else ""
    console.print(f"shared by {document['method']}{gap}", markup=False)
    console.print(tables.types(document))
    console.print()
    console.print(tables.jobs(document))
    for rows in (tables.nodes(document), tables.waiting_for_nodes(document)):
        if rows.row_count:
            console.print()
            console.print(rows)
    for words in filter(None, (document["note"], document["trouble"])):
        console.print(words, style="yellow", markup=False)
    return None


@fleet.command("ahead")
def ahead(*, server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """How many GPUs of each type will be wished over the next day, and when there are too few."""
    with asking_server("fleet ahead", server, ca_file) as client, waiting("looking a day ahead"):
        document = client.ask("GET", "/v1/fleet/ahead", timeout_s=WHAT_IF_TIMEOUT_S).document
    show(document, as_json, tables.hours_ahead)


@fleet.command("admit")
def admit(
    file: Annotated[Path, typer.Argument(metavar="JOB.YAML", help="The job that wants in.")],
    *,
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """What accepting a job would do to everyone over a day and a week. Nothing is changed.

    Exit code 0 is accept; 1 is queue or refuse.
    """
    body = _read(file)
    with asking_server("fleet admit", server, ca_file) as client, waiting("playing a day and a week"):
        document = client.ask("POST", "/v1/fleet/admission", body, timeout_s=WHAT_IF_TIMEOUT_S).document
    if not as_json:
        wait = f" in {document['start_s'] / 3600:.0f} h" if document["verdict"] == "queue" else ""
        typer.echo(f"{document['verdict']}{wait}: {document['why']}")
    if as_json or document["outcomes"]:
        show(document, as_json, tables.outcomes)
    if document["verdict"] != "accept":
        raise typer.Exit(REFUSED)


@fleet.command("without")
def without(
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Nodes to do without.")],
    *,
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Who suffers while these nodes are away. Nothing is changed."""
    _what_if("fleet without", {"nodes": nodes}, server, ca_file, as_json=as_json)


@fleet.command("with")
def with_gpus(
    gpus: Annotated[
        list[str], typer.Argument(metavar="TYPE=GPUS...", help="How many of a type there would be.")
    ],
    *,
    server: Server = SERVER,
    ca_file: CaFile = None,
    as_json: AsJson = False,
) -> None:
    """Who suffers, or gains, with another number of GPUs of some types. Nothing is changed."""
    counts = {}
    for text in gpus:
        kind, _, count = text.rpartition("=")
        if not kind or not count.isdecimal():
            typer.echo(f"penstock fleet with: {text!r} is not TYPE=GPUS, such as a100=16", err=True)
            raise typer.Exit(2)
        counts[kind] = int(count)
    _what_if("fleet with", {"gpus": counts}, server, ca_file, as_json=as_json)


def _what_if(command: str, body: Any, server: str, ca_file: str | None, *, as_json: bool) -> None:
    with asking_server(command, server, ca_file) as client:
        document = client.ask("POST", "/v1/fleet/what-if", body, timeout_s=WHAT_IF_TIMEOUT_S).document
    show(document, as_json, tables.sufferers)


@fleet.command("discover")
def discover(
    *,
    platform: Annotated[
        Literal["kubernetes", "ray"], typer.Option(help="What runs the workers.")
    ] = "kubernetes",
    ray_address: Annotated[str, typer.Option(metavar="HOST:PORT", help="The Ray cluster.")] = "auto",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="How to reach the cluster; as kubectl finds it by default."),
    ] = None,
    context: Annotated[
        str, typer.Option(help="Which of the kubeconfig's contexts; the current by default.")
    ] = "",
) -> None:
    """Print the GPUs of a cluster as a fleet file, from its nodes' labels (Kubernetes) or resources (Ray).

    A controller reads them itself where `fleet.platform` says so.
    """
    terms = PlatformSettings(kind=platform, kubeconfig=kubeconfig, context=context, ray_address=ray_address)
    try:
        contents = asyncio.run(nodes_from(terms))
    except ControlError as error:
        typer.echo(f"penstock fleet discover: {error}", err=True)
        raise typer.Exit(3) from error
    document = contents.model_dump(mode="json", exclude_defaults=True)
    typer.echo(yaml.safe_dump(document, sort_keys=False), nl=False)


def _read(file: Path) -> Any:
    try:
        return read_document(file)
    except YamlUnreadable as error:
        typer.echo(f"penstock fleet admit: {error}", err=True)
        raise typer.Exit(2) from error
