"""Where the definitions of jobs live: changed with compare-and-set, each change audited and told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, cast

from redis.asyncio import Redis

from services.settings import JobSettings
from services.settings.root import RedisSettings
from services.store.connect import asking, connect_sync, translating
from services.store.errors import StateCorrupt
from services.store.job_record import JobExists, JobRecord, NoSuchJob, StaleVersion
from services.store.keys import Keys
from services.store.streams import AUDIT_KEPT, EVENTS_KEPT, MemoryStream

ABSENT = 0
"""The version of a job that is not there."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a change leaves behind, as JSON: one entry of the audit log, one event."""

    audit: bytes
    event: bytes


class JobStore(Protocol):
    """The jobs of the fleet. Tombstones of deleted jobs are among them."""

    async def version(self) -> int:
        """Grows with every change. Raises StateUnavailable."""
        ...

    async def every(self) -> dict[str, JobRecord | StateCorrupt]:
        """All definitions by name; what is wrong with one in its place. Raises StateUnavailable."""
        ...

    async def put(self, record: JobRecord, *, expected: int, trace: Trace | None = None) -> JobRecord:
        """Store the record if the job's version is still `expected`; gives it with its new version.

        ABSENT expects that there is no job of that name. Record, audit entry and event are written
        together or not at all. Raises StaleVersion, JobExists, NoSuchJob, StateUnavailable.
        """
        ...


def refused(job: str, *, expected: int, found: int) -> StaleVersion | JobExists | NoSuchJob:
    """Why a change cannot be made, when the version found is not the one expected."""
    if expected == ABSENT:
        return JobExists(job)
    return NoSuchJob(job) if found == ABSENT else StaleVersion(job, expected=expected, found=found)


# The record's version is drawn from the counter before the script runs, so that the record can carry it;
# the counter grows once more with the record itself, because watchers that saw it drawn saw no change yet.
# cjson reads the stored version only: what is written comes as it is.
_PUT = """
local jobs, version, audit, events = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, expected, record, audit_json, event_json, audit_kept, events_kept = unpack(ARGV)

local found = '0'
local stored = redis.call('HGET', jobs, name)
if stored then found = string.format('%.0f', cjson.decode(stored)['version']) end
if found ~= expected then return found end

redis.call('HSET', jobs, name, record)
redis.call('INCR', version)
if audit_json ~= '' then
  redis.call('XADD', audit, 'MAXLEN', '~', audit_kept, '*', 'entry', audit_json)
  redis.call('XADD', events, 'MAXLEN', '~', events_kept, '*', 'kind', 'job', 'job', name, 'data', event_json)
end
return false
"""


class RedisJobs:
    """A JobStore that all controllers with the same Redis and prefix share."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._put = client.register_script(_PUT)

    async def version(self) -> int:
        key = self._keys.jobs_version()
        async with asking(self._client, f"GET {key}"):
            return int(await self._client.get(key) or 0)

    async def every(self) -> dict[str, JobRecord | StateCorrupt]:
        key = self._keys.jobs()
        async with asking(self._client, f"HGETALL {key}"):
            stored = cast(dict[bytes, bytes], await self._client.hgetall(key))
        named = sorted((name.decode(errors="backslashreplace"), raw) for name, raw in stored.items())
        return {name: _read(raw, key=f"{key} {name}") for name, raw in named}

    async def discard(self, name: str) -> None:
        """Take away a definition that cannot be read, before another is put in its place."""
        async with asking(self._client, f"HDEL {self._keys.jobs()}"):
            await self._client.hdel(self._keys.jobs(), name)

    async def put(self, record: JobRecord, *, expected: int, trace: Trace | None = None) -> JobRecord:
        keys = self._keys
        async with asking(self._client, f"change of job {record.name}"):
            drawn = int(await self._client.incr(keys.jobs_version()))
            numbered = record.model_copy(update={"version": drawn})
            found = await self._put(
                keys=[keys.jobs(), keys.jobs_version(), keys.audit(), keys.events()],
                args=[
                    *(record.name, expected, numbered.written()),
                    *((trace.audit, trace.event) if trace else ("", "")),
                    *(AUDIT_KEPT, EVENTS_KEPT),
                ],
            )
        if found is not None:
            raise refused(record.name, expected=expected, found=int(found))
        return numbered


def stored_job(settings: RedisSettings, name: str) -> JobSettings | None:
    """A job's settings for a process without an event loop; None when the store has none in force.

    Raises StateUnavailable, StateCorrupt.
    """
    key = Keys(settings.prefix).jobs()
    with connect_sync(settings) as client, translating(client, f"HGET {key}"):
        raw = cast(bytes | None, client.hget(key, name))
    if raw is None:
        return None
    record = JobRecord.read(raw, key=f"{key} {name}")
    return None if record.deleted else record.settings


def _read(raw: bytes, *, key: str) -> JobRecord | StateCorrupt:
    """One record that cannot be read must not hide the others."""
    try:
        return JobRecord.read(raw, key=key)
    except StateCorrupt as error:
        return error


@dataclass(slots=True)
class MemoryJobs:
    """A JobStore that lives as long as its process, with its audit log and its events."""

    audit: MemoryStream = field(default_factory=lambda: MemoryStream(kept=AUDIT_KEPT))
    events: MemoryStream = field(default_factory=lambda: MemoryStream(kept=EVENTS_KEPT))
    _records: dict[str, JobRecord] = field(default_factory=dict)
    _version: int = 0

    async def version(self) -> int:
        return self._version

    async def every(self) -> dict[str, JobRecord | StateCorrupt]:
        return dict(sorted(self._records.items()))

    async def put(self, record: JobRecord, *, expected: int, trace: Trace | None = None) -> JobRecord:
        known = self._records.get(record.name)
        found = known.version if known else ABSENT
        if found != expected:
            raise refused(record.name, expected=expected, found=found)
        self._version += 1
        numbered = record.model_copy(update={"version": self._version})
        self._records[record.name] = numbered
        if trace is not None:
            await self.audit.append({"entry": trace.audit})
            await self.events.append({"kind": "job", "job": record.name, "data": trace.event})
        return numbered
