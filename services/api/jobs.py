"""Jobs: list, make, read, replace, patch, delete."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Response

from services.api.dependencies import Admin, JobId, KnownJob, NeededVersion, Operator, Viewer
from services.api.examples import JOB, PATCH
from services.api.merge import merged
from services.api.problems import ApiProblem, Kind
from services.api.site import Site, TheSite
from services.api.views import DeletedView, JobView
from services.clock import SystemClock
from services.settings import JobSettings
from services.settings.job import JOB_ID
from services.settings.scaling import SloSettings
from services.store.job_record import JobRecord

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


class NewJob(JobSettings):
    """A job to make."""

    id: Annotated[str, Query(pattern=JOB_ID)]
    """Its name: lower-case letters, digits and dashes."""


async def shown(site: Site, record: JobRecord, response: Response | None = None) -> JobView:
    """The job as it is, with its ETag."""
    if response is not None:
        response.headers["ETag"] = f'"{record.version}"'
    snapshot = await site.controller.snapshot(record.name)
    return JobView.of(record, snapshot, now_s=SystemClock().now_s())


@router.get("")
async def list_jobs(who: Viewer, site: TheSite) -> list[JobView]:
    """Every job that the token is good for."""
    jobs = sorted(site.controller.jobs.items())
    return [await shown(site, record) for name, record in jobs if who.good_for(name)]


@router.post("", status_code=201)
async def create_job(
    who: Admin,
    site: TheSite,
    response: Response,
    job: Annotated[NewJob, Body(openapi_examples={"clicks": {"value": {"id": "clicks", **JOB}}})],
) -> JobView:
    """Make a job. It runs from the next tick on."""
    if not who.good_for(job.id):
        raise ApiProblem(Kind.FORBIDDEN, f"the token is not good for a job called {job.id!r}")
    settings = JobSettings.model_validate(job.model_dump(exclude={"id"}, exclude_unset=True))
    record = await site.controller.desk.create(job.id, settings, who.caller)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return await shown(site, record, response)


@router.get("/{job_id}")
async def read_job(who: Viewer, record: KnownJob, site: TheSite, response: Response) -> JobView:
    """One job. The ETag tells the version of its definition; how it is doing changes all the time."""
    del who
    return await shown(site, record, response)


@router.put("/{job_id}")
async def replace_job(
    *,
    who: Admin,
    record: KnownJob,
    site: TheSite,
    version: NeededVersion,
    response: Response,
    job: Annotated[JobSettings, Body(openapi_examples={"clicks": {"value": JOB}})],
) -> JobView:
    """Replace all settings of a job; what is left out gets its default.

    Topic, group, the kind of pool and of shuffle cannot change: make a new job for that.
    """
    after = await site.controller.desk.replace(record.name, lambda _: job, who.caller, expected=version)
    return await shown(site, after, response)


@router.patch("/{job_id}")
async def patch_job(
    *,
    who: Admin,
    record: KnownJob,
    site: TheSite,
    version: NeededVersion,
    response: Response,
    patch: Annotated[dict[str, Any], Body(openapi_examples={"more workers": {"value": PATCH}})],
) -> JobView:
    """Change some settings of a job: a JSON merge patch (RFC 7396); null gives a setting its default."""

    def patched(settings: JobSettings) -> JobSettings:
        return JobSettings.model_validate(merged(settings.as_given(), patch))

    after = await site.controller.desk.replace(
        record.name, patched, who.caller, expected=version, action="job.patch"
    )
    return await shown(site, after, response)


@router.delete("/{job_id}")
async def delete_job(
    *,
    who: Admin,
    job_id: JobId,
    record: KnownJob,
    site: TheSite,
    version: NeededVersion,
    forget: Annotated[bool, Query(description="Delete the ledger and the history too.")] = False,
) -> DeletedView:
    """Delete a job, and say what becomes of its workers, its ledger and its history."""
    del record
    after = await site.controller.desk.delete(job_id, who.caller, expected=version, forget=forget)
    return DeletedView.of(after)


@router.put("/{job_id}/slo")
async def replace_slo(
    *,
    who: Operator,
    record: KnownJob,
    site: TheSite,
    version: NeededVersion,
    response: Response,
    slo: Annotated[
        SloSettings,
        Body(openapi_examples={"tighter": {"value": {"fresh_within_s": 30, "late_share_target": 0.005}}}),
    ],
) -> JobView:
    """Promise another freshness. It holds from the next tick on."""
    after = await site.controller.desk.set_slo(record.name, slo, who.caller, expected=version)
    return await shown(site, after, response)
