"""What the routes need, injected: who asks, which job, which version.

All of them are coroutines: FastAPI sends a plain function to a thread, for every request again.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, cast

from fastapi import Depends, Header, Path, Request

from services.access.role import Role
from services.api.principal import Principal
from services.api.problems import ApiProblem, Kind
from services.api.site import TheSite
from services.controller.snapshot import JobSnapshot
from services.settings.job import JOB_ID
from services.store.job_record import JobRecord


async def principal(request: Request) -> Principal:
    """Who asks, as the gate found out."""
    return cast(Principal, request.state.principal)


ThePrincipal = Annotated[Principal, Depends(principal)]


def needs(role: Role) -> Callable[[Principal], Awaitable[Principal]]:
    """A dependency that lets `role` and those above it pass."""

    async def check(who: ThePrincipal) -> Principal:
        if not who.role.allows(role):
            raise ApiProblem(Kind.FORBIDDEN, f"this needs the role {role}; the token has {who.role}")
        return who

    return check


Viewer = Annotated[Principal, Depends(needs(Role.VIEWER))]
Operator = Annotated[Principal, Depends(needs(Role.OPERATOR))]
Admin = Annotated[Principal, Depends(needs(Role.ADMIN))]


def good_for_all(who: Principal) -> None:
    """What names or changes every job is for tokens that are good for every job."""
    if who.jobs is not None:
        raise ApiProblem(Kind.FORBIDDEN, "this is about all jobs; the token is good for some of them only")


JobId = Annotated[str, Path(pattern=JOB_ID, description="The job's name.", examples=["clicks"])]


async def known_job(job_id: JobId, who: ThePrincipal, site: TheSite) -> JobRecord:
    """The job, or 404 with the names there are. A job that the token is not good for is not there."""
    jobs = site.controller.jobs
    record = jobs.get(job_id)
    if record is None or not who.good_for(job_id):
        known = ", ".join(sorted(name for name in jobs if who.good_for(name))) or "none"
        raise ApiProblem(Kind.NOT_FOUND, f"no job is called {job_id!r}; there are: {known}")
    return record


KnownJob = Annotated[JobRecord, Depends(known_job)]


async def observed_job(record: KnownJob, site: TheSite) -> JobSnapshot:
    """What is known of the job, or 503 before its first observation."""
    snapshot = await site.controller.snapshot(record.name)
    if snapshot is None or snapshot.traffic is None:
        why = f": {snapshot.trouble}" if snapshot and snapshot.trouble else ""
        raise ApiProblem(
            Kind.NOT_READY,
            f"job {record.name!r} has not been observed yet{why}; try again in a moment",
            headers={"Retry-After": "2"},
        )
    return snapshot


ObservedJob = Annotated[JobSnapshot, Depends(observed_job)]

_IF_MATCH = "The ETag of the version that was read, or `*` for whatever is there."


def read_version(if_match: str) -> int | None:
    """The version that an If-Match header names; None for `*`. Raises ApiProblem when it can match nothing.

    >>> read_version('"12"'), read_version("*")
    (12, None)
    """
    if if_match.strip() == "*":
        return None
    found = re.fullmatch(r'"([0-9]{1,18})"', if_match.strip(), flags=re.ASCII)
    if found is None:
        raise ApiProblem(Kind.STALE, 'If-Match matches no version; an ETag looks like "12"')
    return int(found[1])


async def needed_version(
    if_match: Annotated[str | None, Header(description=_IF_MATCH, examples=['"12"'])] = None,
) -> int | None:
    """The version to replace; 428 when it is not said."""
    if if_match is None:
        raise ApiProblem(
            Kind.VERSION_NEEDED,
            "send If-Match with the ETag that you read (or * to overwrite whatever is there), "
            "so that nobody's change is lost",
        )
    return read_version(if_match)


async def maybe_version(
    if_match: Annotated[str | None, Header(description=_IF_MATCH, examples=['"12"'])] = None,
) -> int | None:
    """The version to change, where any will do unless it is said."""
    return None if if_match is None else read_version(if_match)


NeededVersion = Annotated[int | None, Depends(needed_version)]
MaybeVersion = Annotated[int | None, Depends(maybe_version)]
