"""`penstock worker`: one worker of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.job_settings import job_settings
from services.logs import configure_logs
from services.settings import SettingsError
from services.trainer.owner import end_with_owner
from services.trainer.ready import not_ready_yet
from services.trainer.worker import run_worker


def worker(
    *,
    job: Annotated[str, typer.Option(help="The job to train.")],
    worker_id: Annotated[
        str, typer.Option(help="This worker's name; no other may have it at the same time.")
    ],
    config: Annotated[
        Path | None, typer.Option(help="YAML file with the settings. PENSTOCK_ variables win over it.")
    ] = None,
    kafka: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Brokers to ask first.")] = None,
    redis: Annotated[str | None, typer.Option(metavar="URL", help="Where the ledger is.")] = None,
    topic: Annotated[str | None, typer.Option(help="The topic that carries the samples.")] = None,
    group: Annotated[str | None, typer.Option(help="The consumer group that shows the progress.")] = None,
    device: Annotated[
        str | None, typer.Option(help="emulated, or one that learns: numpy, cpu, cuda.")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Samples in a step.")] = None,
    step_ms: Annotated[float | None, typer.Option(min=0, help="How long a full step takes at least.")] = None,
    startup_s: Annotated[
        float | None, typer.Option(min=0, help="Extra start-up time, as loading a model would take.")
    ] = None,
    connect_s: Annotated[
        float, typer.Option(min=0, help="How long Kafka and Redis may take to answer at start.")
    ] = 30.0,
) -> None:
    """Train what the job's ledger hands out, until SIGTERM or Ctrl-C.

    The settings come from --config; the other options win over it, and are enough without it. On
    SIGTERM the worker trains what it has read, gives back the rest, commits and exits with 0; a
    second SIGTERM ends it at once.

    Exit codes: 2 settings wrong, 66 no such topic, 69 Kafka, Redis or the parameter server did not
    answer in time, 71 the process that started it is gone, 78 the device asked for is not there.
    """
    end_with_owner()
    not_ready_yet()
    given: dict[str, dict[str, Any]] = {
        "kafka": {"bootstrap": kafka},
        "redis": {"url": redis},
        "job": {"topic": topic, "group": group},
        "worker": {"device": device, "batch": batch, "step_ms": step_ms, "startup_s": startup_s},
    }
    try:
        settings = job_settings(config, job, given)
    except SettingsError as error:
        typer.echo(f"penstock worker: {error}", err=True)
        raise typer.Exit(2) from error
    configure_logs(settings.log)
    raise typer.Exit(run_worker(settings, job, worker_id, connect_s=connect_s))
