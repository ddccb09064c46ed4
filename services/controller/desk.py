"""Where operators' changes are taken: checked against the job as it is, audited, stored, told.

What is refused, and by which error, is in `refusals.py`.
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
from services.controller.refusals import (
    Unfitting,
    check_fixed,
    check_group,
    check_mode,
    check_override,
    check_programs,
)
from services.settings import JobSettings
from services.settings.scaling import SloSettings
from services.store.job_record import (
    JobExists,
    JobRecord,
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
        check_group(name, settings, self._book.live)
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
            check_fixed(record.settings, after)
            self._check_programs(record.settings, after)
            check_group(name, after, self._book.live)
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
            check_mode(name, settings, mode)
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
            check_override(record, workers)
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

    def _check_programs(self, before: JobSettings, after: JobSettings) -> None:
        if not self._allow_commands:
            check_programs(before, after)

    def _check_fleet(self, name: str, settings: JobSettings) -> None:
        """All jobs together, this one as it would be."""
        jobs = {other: record.settings for other, record in self._book.live.items()} | {name: settings}
        try:
            self._check_jobs(jobs)
        except InvalidFleet as error:
            raise Unfitting(f"job {name!r} does not fit the fleet: {error}") from error


def _told(record: JobRecord | None) -> dict[str, object]:
    """What the audit log compares."""
    if record is None or record.deleted:
        return {}
    told = record.model_dump(mode="json", include={"pause", "override", "rollback"})
    return {**told, **record.settings.model_dump(mode="json")}
