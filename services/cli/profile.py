"""`penstock profile`: what one and two workers of a job train, before its first decision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console

from services.cli.client import quoted
from services.cli.job_settings import job_settings
from services.cli.shown import SERVER, CaFile, Server, asking_server, table_of
from services.demo.shard_processes import ShardProcesses, ShardsNotReady
from services.settings import Settings, SettingsError
from services.settings.scaling import ProfilePoint
from services.stream.errors import StreamError
from services.trainer.profiling import ProfileFailed, ProfileTerms
from services.trainer.profiling import profile as profiled

Sizes = Annotated[str, typer.Option(help="Pool sizes to measure, as 1,2.")]


def profile(
    *,
    job: Annotated[str, typer.Argument(help="The job to measure.")],
    config: Annotated[
        Path | None, typer.Option(help="YAML file with the settings. PENSTOCK_ variables win over it.")
    ] = None,
    workers: Sizes = "1,2",
    seconds: Annotated[float, typer.Option(min=2, help="How long each size is measured.")] = 20.0,
    gpu_type: Annotated[str, typer.Option(help="What the pool calls this machine's type of GPU.")] = "",
    start_within: Annotated[float, typer.Option(min=1, help="Seconds a worker has to begin.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the settings as JSON.")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Write the profile into the server's job.")] = False,
    server: Server = SERVER,
    ca_file: CaFile = None,
) -> None:
    """Train what Kafka has kept of the job's topic at full speed, with one worker and then with two.

    The workers run on this machine, with a parameter server, a ledger and a consumer group of their own
    that are discarded: the job's model and its commits are not touched, and the job may run meanwhile. The
    result is `scaling.profile` of the job's settings; with --apply it goes to the server. Run it on a
    machine of each type of GPU.

    Exit codes: 1 nothing could be measured, 2 settings wrong.
    """
    try:
        terms = ProfileTerms(_sizes(workers), seconds, gpu_type, start_within)
        settings = job_settings(config, job, {"kafka": {}, "redis": {}, "job": {}, "worker": {}})
    except (SettingsError, ValueError) as error:
        typer.echo(f"penstock profile: {error}", err=True)
        raise typer.Exit(2) from error
    try:
        points = _measured(settings, job, terms)
    except (ProfileFailed, ShardsNotReady, StreamError) as error:
        typer.echo(f"penstock profile: {error}", err=True)
        raise typer.Exit(1) from error
    _show(points, as_json=as_json)
    if apply:
        others = [one for one in settings.jobs[job].scaling.profile if one.gpu_type != gpu_type]
        patch = {"scaling": {"profile": [point.model_dump() for point in (*others, *points)]}}
        with asking_server("profile", server, ca_file) as client:
            client.ask("PATCH", f"/v1/jobs/{quoted(job)}", patch, etag="*")
        typer.echo(f"{job} has it now.", err=True)


def _sizes(text: str) -> tuple[int, ...]:
    """Raises ValueError.

    >>> _sizes("2,1,2")
    (1, 2)
    """
    try:
        sizes = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        sizes = ()
    if not sizes or sizes[0] < 1:
        raise ValueError(f"--workers {text!r}: give numbers of workers, as 1,2")
    return sizes


def _measured(settings: Settings, job: str, terms: ProfileTerms) -> list[ProfilePoint]:
    def make_shards(scratch: Settings, file: Path, directory: Path) -> ShardProcesses:
        return ShardProcesses(scratch, job, config=file, directory=directory)

    with Console(stderr=True).status("starting") as status:
        return profiled(settings, job, terms, make_shards=make_shards, told=status.update)


def _show(points: list[ProfilePoint], *, as_json: bool) -> None:
    document = {"scaling": {"profile": [point.model_dump() for point in points]}}
    if as_json:
        typer.echo(json.dumps(document))
        return
    rows = [
        (point.workers, point.samples_per_s, point.samples_per_s / point.workers, point.gpu_type)
        for point in points
    ]
    Console(stderr=True).print(table_of(("workers", "samples/s", "each", "GPU type"), rows))
    typer.echo(yaml.safe_dump(document, sort_keys=False), nl=False)
