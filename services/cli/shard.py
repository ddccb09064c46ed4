"""`penstock shard`: one shard of a job's parameter server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.job_settings import job_settings
from services.logs import configure_logs
from services.settings import SettingsError
from services.trainer.owner import end_with_owner
from services.trainer.ps.shard import Listen, run_shard
from services.trainer.ready import not_ready_yet


def shard(
    *,
    job: Annotated[str, typer.Option(help="The job whose parameters it keeps.")],
    number: Annotated[
        int, typer.Option("--shard", min=0, help="Which shard: 0 to parameters.shards - 1.")
    ] = 0,
    config: Annotated[
        Path | None, typer.Option(help="YAML file with the settings. PENSTOCK_ variables win over it.")
    ] = None,
    kafka: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Brokers to ask first.")] = None,
    redis: Annotated[str | None, typer.Option(metavar="URL", help="Where workers find this shard.")] = None,
    topic: Annotated[str | None, typer.Option(help="The topic that carries the samples.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST", help="What workers are told to connect to; else --host.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 0,
    connect_s: Annotated[
        float, typer.Option(min=0, help="How long Redis may take to answer at start.")
    ] = 30.0,
) -> None:
    """Keep a part of the model's parameters, until SIGTERM or Ctrl-C.

    The newest snapshot is restored; where samples were trained after it, the job's ledger goes back to
    its position, so that they are trained again. On SIGTERM a last snapshot is kept.

    Exit codes: 2 settings wrong, 69 Kafka or Redis did not answer in time, 71 the process that started
    it is gone.
    """
    end_with_owner()
    not_ready_yet()
    given: dict[str, dict[str, Any]] = {
        "kafka": {"bootstrap": kafka},
        "redis": {"url": redis},
        "job": {"topic": topic},
        "worker": {},
    }
    try:
        settings = job_settings(config, job, given)
    except SettingsError as error:
        typer.echo(f"penstock shard: {error}", err=True)
        raise typer.Exit(2) from error
    shards = settings.jobs[job].parameters.shards
    if number >= shards:
        typer.echo(f"penstock shard: there is no shard {number}: parameters.shards is {shards}", err=True)
        raise typer.Exit(2)
    configure_logs(settings.log)
    listen = Listen(host, port, advertised=advertise or host)
    raise typer.Exit(run_shard(settings, job, number, listen, connect_s=connect_s))
