"""Where operators' changes are taken: validated against the job as it is, audited, stored, told.

JobsError
├── StaleVersion, JobExists, NoSuchJob    (services/store/job_record.py)
├── Unchangeable                          a field that a running job cannot change
├── CommandForbidden                      programs may not be named through the API
└── Unfitting                             the change does not fit the job as it is
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from estimator.fleet import InvalidFleet
from services.access.audit import AuditEntry, differences
from services.control.ports import Clock
from services.control.types import Mode
from services.controller.book import JobBook
from services.settings import JobSettings
from services.settings.job import SloSettings
from services.store.job_record import (
    JobExists,
    JobRecord,
    JobsError,
    NoSuchJob,
    OverrideRecord,
    PauseRecord,
    RollbackRecord,
    StaleVersion,
)
from services.store.jobs import ABSENT, Trace

log = structlog.get_logger(__name__)

_TRIES = 5
"""A change that fits any version is tried again this often when others change the job at the same time."""

_FIXED = ("topic", "group", "shuffle.mode", "shuffle.start", "pool.kind")
_PROGRAMS = ("pool.command", "pool.run_dir", "pool.docker", "pool.kubernetes", "pool.ray", "pool.by_gpu_type")


class Unchangeable(JobsError):
    """A field that a running job cannot change."""


class CommandForbidden(JobsError):
    """Programs may not be named through the API."""


class Unfitting(JobsError):
    """The change does not fit the job as it is."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who changes something, for the audit log."""

    name: str
    role: str


Edit = Callable[[JobRecord], JobRecord]


class Desk:
    """Every way to change a job. Each change is one compare-and-set; nothing is half done."""

    def __init__(
        self,
        book: JobBook,
        clock: Clock,
        *,
        allow_commands: bool = False,
        decision_of: Callable[[str], str | None] = lambda _: None,
        check_jobs: Callable[[Mapping[str, JobSettings]], None] = lambda _: None,
    ) -> None:
        self._book = book
        self._clock = clock
        self._allow_commands = allow_commands
        self._decision_of = decision_of
        self._check_jobs = check_jobs

    async def create(self, name: str, settings: JobSettings, by: Caller) -> JobRecord:
        """A new job. Raises JobExists, CommandForbidden, Unfitting, StateUnavailable."""
        await self._book.refresh()
        self._check_programs(JobSettings(topic=settings.topic), settings)
        self._check_group(name, settings)
        self._check_fleet(name, settings)
        stone = self._book.get(name)
        if stone is not None and not stone.deleted:
            raise JobExists(name)
        if stone is not None and not stone.retired:
            raise JobExists(name, why="the one before is still being taken down; try again in a moment")
        record = JobRecord(name=name, settings=settings)
        return await self._put(None, record, by, "job.create", expected=stone.version if stone else ABSENT)

    async def replace(
        self,
        name: str,
        settings: Callable[[JobSettings], JobSettings],
        by: Caller,
        *,
        expected: int | None,
        action: str = "job.replace",
    ) -> JobRecord:
        """New settings. Raises what `create` raises, NoSuchJob, StaleVersion, Unchangeable."""

        def edit(record: JobRecord) -> JobRecord:
            after = settings(record.settings)
            self._check_fixed(record.settings, after)
            self._check_programs(record.settings, after)
            self._check_group(name, after)
            if after.fleet != record.settings.fleet or after.scaling != record.settings.scaling:
                self._check_fleet(name, after)
            return record.model_copy(update={"settings": after})

        return await self._edit(name, edit, by, action, expected=expected)

    async def set_slo(self, name: str, slo: SloSettings, by: Caller, *, expected: int | None) -> JobRecord:
        """A new promise."""
        return await self.replace(
            name,
            lambda settings: settings.model_copy(update={"slo": slo}),
            by,
            expected=expected,
            action="job.slo",
        )

    async def set_mode(self, name: str, mode: Mode, by: Caller, *, expected: int | None = None) -> JobRecord:
        """Act, or only recommend."""

        def changed(settings: JobSettings) -> JobSettings:
            if mode is Mode.ACT and settings.pool.kind == "recommend":
                raise Unfitting(
                    f"job {name!r} has no pool to act on: its pool.kind is `recommend`; "
                    "make the job anew with another kind"
                )
            scaling = settings.scaling.model_copy(update={"mode": mode})
            return settings.model_copy(update={"scaling": scaling})

        return await self.replace(name, changed, by, expected=expected, action="job.mode")

    async def override(
        self,
        name: str,
        workers: int,
        by: Caller,
        *,
        lasting_s: float,
        reason: str,
        expected: int | None = None,
    ) -> JobRecord:
        """A size in the place of the rule's, until it expires."""
        until_s = self._clock.now_s() + lasting_s
        wanted = OverrideRecord(workers=workers, until_s=until_s, reason=reason, by=by.name)

        def edit(record: JobRecord) -> JobRecord:
            _check_override(record, workers)
            return record.model_copy(update={"override": wanted})

        return await self._edit(name, edit, by, "job.override", expected=expected, reason=reason)

    async def end_override(self, name: str, by: Caller, *, expected: int | None = None) -> JobRecord:
        """Give the size back to the rule. Nothing changes when there is no override."""

        def edit(record: JobRecord) -> JobRecord:
            return record.model_copy(update={"override": None})

        return await self._edit(name, edit, by, "job.override.end", expected=expected)

    async def pause(self, name: str, by: Caller, *, reason: str, expected: int | None = None) -> JobRecord:
        """Leave the pool as it is from the next tick on. Pausing twice keeps the first."""
        now_s = self._clock.now_s()

        def edit(record: JobRecord) -> JobRecord:
            if record.pause is not None:
                return record
            pause = PauseRecord(at_s=now_s, reason=reason, by=by.name)
            return record.model_copy(update={"pause": pause})

        return await self._edit(name, edit, by, "job.pause", expected=expected, reason=reason)

    async def resume(self, name: str, by: Caller, *, expected: int | None = None) -> JobRecord:
        """Size the pool again from the next tick on."""

        def edit(record: JobRecord) -> JobRecord:
            return record.model_copy(update={"pause": None})

        return await self._edit(name, edit, by, "job.resume", expected=expected)

    async def roll_back_models(
        self, name: str, version: str, by: Caller, *, reason: str, expected: int | None = None
    ) -> JobRecord:
        """Serve this version of the forecasting models no more. Said twice of one version keeps the first."""
        wanted = RollbackRecord(version=version, at_s=self._clock.now_s(), reason=reason, by=by.name)

        def edit(record: JobRecord) -> JobRecord:
            if record.rollback is not None and record.rollback.version == version:
                return record
            return record.model_copy(update={"rollback": wanted})

        return await self._edit(name, edit, by, "job.rollback", expected=expected, reason=reason)

    async def delete(self, name: str, by: Caller, *, expected: int | None, forget: bool) -> JobRecord:
        """Mark the job as deleted; the leader drains its workers, and with `forget` its history goes too."""

        def edit(record: JobRecord) -> JobRecord:
            return record.model_copy(update={"deleted": True, "forget": forget, "retired": False})

        return await self._edit(name, edit, by, "job.delete", expected=expected)

    async def _edit(
        self, name: str, edit: Edit, by: Caller, action: str, *, expected: int | None, reason: str = ""
    ) -> JobRecord:
        for attempt in range(_TRIES):
            await self._book.refresh()
            before = self._book.get(name)
            if before is None or before.deleted:
                raise NoSuchJob(name)
            if expected is not None and before.version != expected:
                raise StaleVersion(name, expected=expected, found=before.version)
            after = edit(before)
            if after == before:
                return before
            try:
                return await self._put(before, after, by, action, expected=before.version, reason=reason)
            except StaleVersion:
                if expected is not None or attempt == _TRIES - 1:
                    raise
        raise AssertionError("unreachable: the last try returns or raises")

    async def _put(
        self,
        before: JobRecord | None,
        after: JobRecord,
        by: Caller,
        action: str,
        *,
        expected: int,
        reason: str = "",
    ) -> JobRecord:
        now_s = self._clock.now_s()
        stamped = after.model_copy(update={"changed_at_s": now_s, "changed_by": by.name})
        entry = AuditEntry(
            at_s=now_s,
            who=by.name,
            role=by.role,
            action=action,
            job=after.name,
            version=before.version if before else None,
            decision=self._decision_of(after.name),
            changes=differences(_told(before), _told(stamped)),
            reason=reason,
        )
        event = {"action": action, "at_s": now_s, "by": by.name, "reason": reason}
        stored = await self._book.store.put(
            stamped, expected=expected, trace=Trace(entry.written(), json.dumps(event).encode())
        )
        log.info("job_changed", job=after.name, action=action, by=by.name, version=stored.version)
        await self._book.refresh()
        return stored

    def _check_fixed(self, before: JobSettings, after: JobSettings) -> None:
        changed = {change.field for change in differences(_dump(before), _dump(after))}
        for field in _FIXED:
            if field in changed:
                raise Unchangeable(f"{field} cannot be changed while the job runs; make a new job with it")

    def _check_programs(self, before: JobSettings, after: JobSettings) -> None:
        if self._allow_commands:
            return
        changed = {change.field for change in differences(_dump(before), _dump(after))}
        for field in _PROGRAMS:
            if any(change == field or change.startswith(f"{field}.") for change in changed):
                raise CommandForbidden(
                    f"{field} names what runs, and where, and may not be set through the API; set it "
                    "in the settings file, or allow it with api.allow_commands"
                )

    def _check_fleet(self, name: str, settings: JobSettings) -> None:
        """All jobs together, this one as it would be."""
        jobs = {other: record.settings for other, record in self._book.live.items()} | {name: settings}
        try:
            self._check_jobs(jobs)
        except InvalidFleet as error:
            raise Unfitting(f"job {name!r} does not fit the fleet: {error}") from error

    def _check_group(self, name: str, settings: JobSettings) -> None:
        for other, record in self._book.live.items():
            same = (record.settings.topic, record.settings.group_of(other))
            if other != name and same == (settings.topic, settings.group_of(name)):
                raise Unfitting(
                    f"job {other!r} trains topic {settings.topic!r} as group {same[1]!r} already; "
                    "give each its own group"
                )


def _check_override(record: JobRecord, workers: int) -> None:
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


def _dump(settings: JobSettings) -> dict[str, object]:
    return settings.model_dump(mode="json")


def _told(record: JobRecord | None) -> dict[str, object]:
    """What the audit log compares."""
    if record is None or record.deleted:
        return {}
    told = record.model_dump(mode="json", include={"pause", "override", "rollback"})
    return {**told, **_dump(record.settings)}
