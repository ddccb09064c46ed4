"""Jobs and tokens in one document, out of the store and back into it."""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict
from redis.asyncio import Redis

from services.access.audit import AuditEntry
from services.access.token import Token
from services.clock import SystemClock
from services.store.errors import StateCorrupt
from services.store.job_record import JobRecord
from services.store.jobs import ABSENT, RedisJobs, Trace
from services.store.keys import Keys
from services.store.tokens import RedisTokens

FORMAT = 1


class Backup(BaseModel):
    """What is worth keeping beyond a Redis: the rest is measured or made again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    penstock_backup: int = FORMAT
    made_at_s: float
    jobs: tuple[JobRecord, ...]
    tokens: tuple[Token, ...]


async def read_backup(client: Redis, keys: Keys) -> Backup:
    """All jobs in force and all tokens. Raises StateUnavailable, StateCorrupt."""
    found = await RedisJobs(client, keys).every()
    jobs = []
    for record in found.values():
        if isinstance(record, StateCorrupt):
            raise record
        if not record.deleted:
            jobs.append(record)
    tokens = await RedisTokens(client, keys).every()
    return Backup(made_at_s=SystemClock().now_s(), jobs=tuple(jobs), tokens=tokens)


async def restore_backup(client: Redis, keys: Keys, saved: Backup, *, by: str, replace: bool) -> list[str]:
    """Write what is missing, and with `replace` what differs or cannot be read; gives the names.

    Raises StateUnavailable.
    """
    jobs, tokens = RedisJobs(client, keys), RedisTokens(client, keys)
    there = await jobs.every()
    done = []
    for record in saved.jobs:
        known = there.get(record.name)
        alive = known is not None and not (isinstance(known, JobRecord) and known.deleted)
        if alive and not replace:
            continue
        if isinstance(known, StateCorrupt):
            await jobs.discard(record.name)
        expected = known.version if isinstance(known, JobRecord) else ABSENT
        entry = AuditEntry(
            at_s=SystemClock().now_s(), who=by, role="admin", action="job.restore", job=record.name
        )
        event = json.dumps({"action": "job.restore", "by": by, "at_s": entry.at_s}).encode()
        await jobs.put(record, expected=expected, trace=Trace(entry.written(), event))
        done.append(f"job {record.name}")
    for token in saved.tokens:
        if await tokens.find(token.id) is None:
            entry = AuditEntry(at_s=SystemClock().now_s(), who=by, role="admin", action="token.restore")
            await tokens.keep(token, audit=entry.written())
            done.append(f"token {token.name} ({token.id})")
    return done
