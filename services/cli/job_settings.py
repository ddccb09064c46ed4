"""The settings of one job, for its own processes: from a file, the store, and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import structlog
from pydantic import ValidationError

from services.control.errors import StateUnavailable
from services.settings import JobSettings, Settings, SettingsError, load_settings
from services.settings.root import KafkaSettings, RedisSettings
from services.store.errors import StateCorrupt
from services.store.jobs import stored_job

log = structlog.get_logger()


def job_settings(config: Path | None, job: str, given: dict[str, dict[str, Any]]) -> Settings:
    """The settings of file and environment, with the options that were given over them.

    Raises SettingsError.
    """
    settings = load_settings(config)
    settings = settings.model_copy(
        update={"redis": RedisSettings(**settings.redis.model_dump() | _only_given(given["redis"]))}
    )
    known = _in_force(settings, job)
    if known is None and given["job"].get("topic") is None:
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
