"""What a change of a job may not do, whoever asks for it.

JobsError
├── StaleVersion, JobExists, NoSuchJob    (services/store/job_record.py)
├── Unchangeable                          a field that a running job cannot change
├── CommandForbidden                      programs may not be named through the API
└── Unfitting                             the change does not fit the job as it is
"""

from __future__ import annotations

from collections.abc import Mapping

from services.access.audit import differences
from services.control.types import Mode
from services.settings import JobSettings
from services.store.job_record import JobRecord, JobsError

_FIXED = ("topic", "group", "shuffle.mode", "shuffle.start", "pool.kind")
_PROGRAMS = ("pool.command", "pool.run_dir", "pool.docker", "pool.kubernetes", "pool.ray", "pool.by_gpu_type")


class Unchangeable(JobsError):
    """A field that a running job cannot change."""


class CommandForbidden(JobsError):
    """Programs may not be named through the API."""


class Unfitting(JobsError):
    """The change does not fit the job as it is."""


def check_fixed(before: JobSettings, after: JobSettings) -> None:
    """Raises Unchangeable."""
    changed = _changed(before, after)
    for field in _FIXED:
        if field in changed:
            raise Unchangeable(f"{field} cannot be changed while the job runs; make a new job with it")


def check_programs(before: JobSettings, after: JobSettings) -> None:
    """Raises CommandForbidden."""
    changed = _changed(before, after)
    for field in _PROGRAMS:
        if any(change == field or change.startswith(f"{field}.") for change in changed):
            raise CommandForbidden(
                f"{field} names what runs, and where, and may not be set through the API; set it "
                "in the settings file, or allow it with api.allow_commands"
            )


def check_group(name: str, settings: JobSettings, jobs: Mapping[str, JobRecord]) -> None:
    """No two of the live jobs train a topic as one group. Raises Unfitting."""
    for other, record in jobs.items():
        same = (record.settings.topic, record.settings.group_of(other))
        if other != name and same == (settings.topic, settings.group_of(name)):
            raise Unfitting(
                f"job {other!r} trains topic {settings.topic!r} as group {same[1]!r} already; "
                "give each its own group"
            )


def check_mode(name: str, settings: JobSettings, mode: Mode) -> None:
    """Raises Unfitting."""
    if mode is Mode.ACT and settings.pool.kind == "recommend":
        raise Unfitting(
            f"job {name!r} has no pool to act on: its pool.kind is `recommend`; "
            "make the job anew with another kind"
        )


def check_override(record: JobRecord, workers: int) -> None:
    """Raises Unfitting."""
    scaling = record.settings.scaling
    if scaling.mode is Mode.RECOMMEND or record.settings.pool.kind == "recommend":
        raise Unfitting(
            f"job {record.name!r} only recommends: an override would not be carried out; "
            "switch it to act first"
        )
    if not scaling.workers_min <= workers <= scaling.workers_max:
        raise Unfitting(
            f"{workers} workers is outside the job's limits, {scaling.workers_min} to {scaling.workers_max}; "
            "change the limits first"
        )


def _changed(before: JobSettings, after: JobSettings) -> set[str]:
    told = differences(before.model_dump(mode="json"), after.model_dump(mode="json"))
    return {change.field for change in told}
