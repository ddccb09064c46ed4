"""The fleet, who one is, the words for reasons, and the audit log."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

import structlog
from fastapi import APIRouter, Query, Response
from pydantic import ValidationError

from services.access.audit import AuditEntry
from services.api.dependencies import Admin, Viewer
from services.api.fleet_share import shared
from services.api.jobs import shown
from services.api.problems import ApiProblem, Kind
from services.api.site import TheSite
from services.api.views import FleetView, JobView, MeView
from services.api.words import words_for
from services.control.types import Reason
from services.settings.job import JOB_ID
from services.store.streams import StreamId

log = structlog.get_logger(__name__)

router = APIRouter(prefix="/v1", tags=["fleet"])


@router.get("/fleet")
async def read_fleet(who: Viewer, site: TheSite) -> FleetView:
    """Every job that the token is good for, and their sums."""
    records = sorted(site.controller.jobs.items())
    jobs = [await shown(site, record) for name, record in records if who.good_for(name)]
    return FleetView(
        leading=site.controller.leading,
        jobs=jobs,
        degraded=sum(job.degraded for job in jobs),
        late=sum(_is_late(job) for job in jobs),
        planned=sum(job.planned or 0 for job in jobs),
        requested=sum(job.requested or 0 for job in jobs),
        ready=sum(job.ready or 0 for job in jobs),
        gpus_ready=sum((job.ready or 0) * job.gpus_per_worker for job in jobs),
        rate_per_s=sum(job.rate_per_s or 0.0 for job in jobs),
        share=shared(site, who),
    )


def _is_late(job: JobView) -> bool:
    return job.lag_s is not None and job.lag_s > job.fresh_within_s


@router.get("/me")
async def read_me(who: Viewer) -> MeView:
    """Who the token belongs to, and what it may do."""
    return MeView(name=who.name, role=who.role, jobs=None if who.jobs is None else list(who.jobs))


@router.get("/reasons")
async def list_reasons(who: Viewer) -> dict[str, str]:
    """Every reason that a decision can have, in words."""
    del who
    return {reason.value: words_for(reason) for reason in Reason}


@router.get("/audit")
async def read_audit(
    *,
    who: Admin,
    site: TheSite,
    response: Response,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    before: Annotated[
        str | None, Query(max_length=64, description="Only entries older than this id.")
    ] = None,
    job: Annotated[str | None, Query(pattern=JOB_ID, description="Only changes of this job.")] = None,
) -> list[AuditEntry]:
    """Who changed what, from what to what, newest first. `Link: ...; rel="next"` leads to older ones."""
    try:
        place = StreamId.parse(before) if before is not None else None
    except ValueError as error:
        raise ApiProblem(Kind.INVALID, f"before: {error}") from error
    found: list[AuditEntry] = []
    while len(found) < limit:
        entries = await site.audit.before(place, limit=limit)
        for entry in entries:
            place = entry.id
            try:
                read = AuditEntry.read(entry)
            except (ValidationError, KeyError):
                log.warning("audit_entry_unreadable", entry=str(entry.id))
                continue
            allowed = who.jobs is None or (read.job is not None and who.good_for(read.job))
            if allowed and (job is None or read.job == job) and len(found) < limit:
                found.append(read)
        if len(entries) < limit:
            break
    if len(found) == limit:
        query = {"limit": str(limit), "before": found[-1].id} | ({"job": job} if job else {})
        response.headers["Link"] = f'</v1/audit?{urlencode(query)}>; rel="next"'
    return found
