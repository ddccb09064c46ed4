"""The jobs as the store has them. The settings seed it; from then on the store wins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from services.access.audit import AuditEntry
from services.control.ports import Clock
from services.settings import JobSettings
from services.store.errors import StateCorrupt
from services.store.job_record import JobExists, JobRecord
from services.store.jobs import ABSENT, JobStore, Trace

log = structlog.get_logger(__name__)

SEEDED_BY = "settings"


class JobBook:
    """A copy of the jobs' definitions, brought up to date before each tick.

    Before the store has answered for the first time it holds the jobs of the settings, at version 0:
    for showing only, nothing runs from it.
    """

    def __init__(self, store: JobStore, seeds: Mapping[str, JobSettings], clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self._seeds = dict(seeds)
        self._records = {name: JobRecord(name=name, settings=job) for name, job in seeds.items()}
        self._version: int | None = None
        self._unreadable: dict[str, str] = {}
        self._changed = asyncio.Event()

    @property
    def live(self) -> dict[str, JobRecord]:
        """The jobs that are not deleted, by name."""
        return {name: record for name, record in self._records.items() if not record.deleted}

    @property
    def leaving(self) -> dict[str, JobRecord]:
        """Deleted jobs whose workers may still be there."""
        return {name: r for name, r in self._records.items() if r.deleted and not r.retired}

    @property
    def unreadable(self) -> Mapping[str, str]:
        """What is wrong with definitions that cannot be read, by name."""
        return self._unreadable

    def get(self, job: str) -> JobRecord | None:
        """The job's definition; a tombstone for one that was deleted, None for one never seen."""
        return self._records.get(job)

    async def open(self) -> None:
        """Add the settings' jobs that the store has never had, then read all. Raises StateUnavailable."""
        known = await self.store.every()
        for name, settings in self._seeds.items():
            if name not in known:
                await self._seed(name, settings)
        await self.refresh()

    async def _seed(self, name: str, settings: JobSettings) -> None:
        now_s = self._clock.now_s()
        record = JobRecord(name=name, settings=settings, changed_at_s=now_s, changed_by=SEEDED_BY)
        entry = AuditEntry(at_s=now_s, who=SEEDED_BY, role="admin", action="job.seed", job=name)
        try:
            await self.store.put(
                record, expected=ABSENT, trace=Trace(entry.written(), b'{"action":"job.seed"}')
            )
        except JobExists:
            log.debug("seed_was_there", job=name)  # another controller started at the same moment
        else:
            log.info("job_seeded", job=name)

    async def refresh(self) -> bool:
        """Read what has changed; whether anything has. Raises StateUnavailable."""
        version = await self.store.version()
        if version == self._version:
            return False
        found = await self.store.every()
        if not found and self._version is not None and self.live:
            # A Redis that lost its data: what ran goes on running, and is written again.
            log.warning("jobs_lost_by_store", jobs=sorted(self.live))
            await self._write_again()
            return await self.refresh()
        self._take(found)
        self._version = version
        self._changed.set()
        return True

    async def _write_again(self) -> None:
        for record in list(self.live.values()):
            entry = AuditEntry(
                at_s=self._clock.now_s(), who=SEEDED_BY, role="admin", action="job.restore", job=record.name
            )
            trace = Trace(entry.written(), b'{"action":"job.restore"}')
            try:
                await self.store.put(record, expected=ABSENT, trace=trace)
            except JobExists:
                log.debug("job_was_restored", job=record.name)

    def _take(self, found: Mapping[str, JobRecord | StateCorrupt]) -> None:
        """A definition that cannot be read holds the job as it was."""
        records: dict[str, JobRecord] = {}
        self._unreadable = {}
        for name, record in found.items():
            if isinstance(record, JobRecord):
                records[name] = record
                continue
            log.error("job_unreadable", job=name, why=str(record))
            self._unreadable[name] = str(record)
            if name in self._records:
                records[name] = self._records[name]
        self._records = records

    async def changed(self, *, within_s: float) -> None:
        """Return when a refresh has found something new, or after `within_s`."""
        try:
            async with asyncio.timeout(within_s):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()
