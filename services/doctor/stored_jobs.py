"""Jobs of the settings against jobs of the store: the settings seed, the store wins."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from services.access.audit import differences
from services.control.errors import StateUnavailable
from services.doctor.finding import Finding, Verdict
from services.settings import JobSettings, Settings
from services.store.connect import connect
from services.store.errors import StateCorrupt
from services.store.job_record import JobRecord
from services.store.jobs import RedisJobs
from services.store.keys import Keys

_SHOWN = 4


def check_stored_jobs(settings: Settings) -> Iterator[Finding]:
    """Every job that is not the same in both, and how. Nothing when the store does not answer: that is
    told by another check."""
    try:
        stored = asyncio.run(_stored(settings))
    except StateUnavailable:
        return
    for name in sorted({*settings.jobs, *stored}):
        yield from _compared(name, settings.jobs.get(name), stored.get(name))


async def _stored(settings: Settings) -> dict[str, JobRecord | StateCorrupt]:
    async with connect(settings.redis) as client:
        return await RedisJobs(client, Keys(settings.redis.prefix)).every()


def _compared(
    name: str, seed: JobSettings | None, record: JobRecord | StateCorrupt | None
) -> Iterator[Finding]:
    what = f"job {name}"
    if isinstance(record, StateCorrupt):
        yield Finding(what, Verdict.WRONG, str(record), "see docs/store.md")
    elif record is None:
        yield Finding(what, Verdict.OK, "in the settings only: it is stored when a controller starts")
    elif record.deleted:
        if seed is not None:
            remedy = "take it out of the settings, or make it again with `penstock job apply`"
            yield Finding(what, Verdict.WARNING, f"deleted by {record.changed_by}; does not run", remedy)
    elif seed is None:
        yield Finding(what, Verdict.OK, "in the store only: made through the API")
    else:
        yield _differing(what, seed, record)


def _differing(what: str, seed: JobSettings, record: JobRecord) -> Finding:
    found = differences(seed.model_dump(mode="json"), record.settings.model_dump(mode="json"))
    if not found:
        return Finding(what, Verdict.OK, "the same in the settings and in the store")
    told = [f"{change.field} is {change.after}, not {change.before}" for change in found[:_SHOWN]]
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    remedy = "the store wins: change the settings too, or `penstock job apply` to put the settings in force"
    return Finding(what, Verdict.WARNING, f"in force: {'; '.join(told)}{more}", remedy)
