"""`penstock fleet`: the GPUs that the jobs of a running controller share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml
from rich.console import Console
from rich.table import Table

from services.cli.client import WHAT_IF_TIMEOUT_S
from services.cli.shown import SERVER, AsJson, CaFile, Server, asking_server, share, show, table_of, waiting
from services.control.errors import ControlError
from services.controller.fleet_source import nodes_from
from services.settings.fleet import PlatformSettings

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
        return show(document, as_json, _types)
    console = Console()
    console.print(_types(document))
    console.print()
    console.print(_jobs(document))
    for words in filter(None, (document["note"], document["trouble"])):
        console.print(words, style="yellow", markup=False)
    return None


@fleet.command("ahead")
def ahead(*, server: Server = SERVER, ca_file: CaFile = None, as_json: AsJson = False) -> None:
    """How many GPUs of each type will be wished over the next day, and when there are too few."""
    with asking_server("fleet ahead", server, ca_file) as client, waiting("looking a day ahead"):
        document = client.ask("GET", "/v1/fleet/ahead", timeout_s=WHAT_IF_TIMEOUT_S).document
    show(document, as_json, _ahead)


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
        show(document, as_json, _outcomes)
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
    with asking_server("fleet without", server, ca_file) as client:
        document = client.ask("POST", "/v1/fleet/what-if", {"nodes": nodes}).document
    show(document, as_json, _sufferers)


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
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        typer.echo(f"penstock fleet admit: {file}: cannot be read: {error.strerror}", err=True)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        typer.echo(f"penstock fleet admit: {file}: is not valid YAML: {error}", err=True)
    raise typer.Exit(2)


def _types(document: dict[str, Any]) -> Table:
    columns = ("GPU type", "there", "lost", "wished", "held", "batch", "contended", "one more is worth")
    return table_of(
        columns,
        [
            (
                *(t["gpu_type"], t["gpus"], t["lost"], t["wished"], t["held"], t["batch"]),
                *(t["contended"], t["shadow_price"]),
            )
            for t in document["types"]
        ],
    )


def _jobs(document: dict[str, Any]) -> Table:
    columns = (
        "job",
        "tenant",
        "GPU type",
        "asked",
        "share",
        "held",
        "guaranteed",
        "lent",
        "satisfied",
        "bound by",
        "worker",
    )
    return table_of(
        columns,
        [
            (
                *(j["job"], j["tenant"], j["gpu_type"], j["asked"], j["share"], j["held"], j["guaranteed"]),
                *(j["lent"], share(j["satisfaction"]), j["binding"], _advice(j["worker"])),
            )
            for j in document["jobs"]
        ],
    )


def _advice(worker: dict[str, Any] | None) -> str:
    """What to change of a worker; nothing where it is right or nobody can tell.

    >>> _advice({"advice": "add_cores", "gpu_share": 1.0, "cores": 6})
    'add cores: 6 cores, 1 GPU'
    """
    if worker is None or worker["advice"] == "right":
        return "-"
    words = worker["advice"].replace("_", " ")
    return f"{words}: {worker['cores']} cores, {worker['gpu_share']:g} GPU"


def _outcomes(document: dict[str, Any]) -> Table:
    rows = []
    for outcome in document["outcomes"]:
        worst = outcome["effects"][0] if outcome["effects"] else None
        harmed = (
            "-"
            if worst is None
            else f"{worst['job']} {share(worst['late_share_before'])} to {share(worst['late_share_after'])}"
        )
        rows.append(
            (
                *(outcome["hours"], share(outcome["late_share"]), harmed),
                *(outcome["bill_before"], outcome["bill_after"]),
            )
        )
    return table_of(("hours", "late itself", "most harmed", "bill now", "bill with it"), rows)


def _ahead(document: dict[str, Any]) -> Table:
    return table_of(
        ("GPU type", "there", "wished now", "most wished", "short in hours"),
        [
            (
                *(t["gpu_type"], t["gpus"], t["wished"][0], max(t["wished"])),
                "-" if t["short_in_h"] is None else t["short_in_h"],
            )
            for t in document["types"]
        ],
    )


def _sufferers(document: dict[str, Any]) -> Table:
    return table_of(
        ("job", "workers", "then", "satisfied", "then"),
        [
            (
                *(j["job"], j["workers_before"], j["workers_after"]),
                *(share(j["satisfaction_before"]), share(j["satisfaction_after"])),
            )
            for j in document["jobs"]
        ],
    )
