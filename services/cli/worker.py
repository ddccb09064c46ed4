"""`penstock worker`: one worker of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
from pydantic import ValidationError

from services.control.errors import StateUnavailable
from services.logs import configure_logs
from services.settings import JobSettings, Settings, SettingsError, load_settings
from services.settings.root import KafkaSettings, RedisSettings
from services.store.errors import StateCorrupt
from services.store.jobs import stored_job
from services.trainer.owner import end_with_owner
from services.trainer.worker import run_worker

log = structlog.get_logger()


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
    batch: Annotated[int | None, typer.Option(min=1, help="Samples in a step.")] = None,
    step_ms: Annotated[float | None, typer.Option(min=0, help="How long a full step takes.")] = None,
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

    Exit codes: 2 settings wrong, 66 no such topic, 69 Kafka or Redis did not answer in time,
    71 the process that started it is gone.
    """
    end_with_owner()
    given: dict[str, dict[str, Any]] = {
        "kafka": {"bootstrap": kafka},
        "redis": {"url": redis},
        "job": {"topic": topic, "group": group},
        "worker": {"batch": batch, "step_ms": step_ms, "startup_s": startup_s},
    }
    try:
        settings = _settings(config, job, given)
    except SettingsError as error:
        typer.echo(f"penstock worker: {error}", err=True)
        raise typer.Exit(2) from error
    configure_logs(settings.log)
    raise typer.Exit(run_worker(settings, job, worker_id, connect_s=connect_s))


def _settings(config: Path | None, job: str, given: dict[str, dict[str, Any]]) -> Settings:
    """The settings of file and environment, with the options that were given over them.

    Raises SettingsError.
    """
    settings = load_settings(config)
    settings = settings.model_copy(
        update={"redis": RedisSettings(**settings.redis.model_dump() | _only_given(given["redis"]))}
    )
    known = _in_force(settings, job)
    if known is None and given["job"]["topic"] is None:
        jobs = ", ".join(sorted(settings.jobs)) or "none"
        raise SettingsError(f"there is no job {job!r} (jobs: {jobs}); add it to the settings or give --topic")
    wanted: dict[str, Any] = {} if known is None else known.model_dump()
    wanted |= _only_given(given["job"])
    wanted["worker"] = wanted.get("worker", {}) | _only_given(given["worker"])
    try:
        return settings.model_copy(
            update={
                "kafka": KafkaSettings(**settings.kafka.model_dump() | _only_given(given["kafka"])),
                "redis": RedisSettings(**settings.redis.model_dump() | _only_given(given["redis"])),
                "jobs": {**settings.jobs, job: JobSettings(**wanted)},
            }
        )
    except ValidationError as error:
        # The value is not repeated: an address of Redis may carry a password.
        mistakes = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_url=False))
        raise SettingsError("; ".join(mistakes)) from error


def _in_force(settings: Settings, job: str) -> JobSettings | None:
    """The job as the store has it; as the settings have it when the store has none, or does not answer."""
    try:
        stored = stored_job(settings.redis, job)
    except (StateUnavailable, StateCorrupt) as error:
        log.warning("job_read_from_settings", job=job, why=str(error))
        stored = None
    return settings.jobs.get(job) if stored is None else stored


def _only_given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
