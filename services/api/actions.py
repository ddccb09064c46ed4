"""What operators do to a running job: override, pause, resume, recommend or act, roll models back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from services.api.dependencies import KnownJob, MaybeVersion, ObservedJob, Operator, good_for_all
from services.api.examples import MODE, OVERRIDE, PAUSE, ROLLBACK
from services.api.jobs import shown
from services.api.site import TheSite
from services.api.views import JobView
from services.control.types import Mode
from services.controller.refusals import Unfitting
from services.settings.scaling import WORKERS_MOST

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["actions"])

WEEK_S = 7 * 86_400.0

# Control characters would let a reason draw over a terminal or forge a line of a log.
Words = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Request(BaseModel):
    """Strict: an unknown field is an error, so a typo cannot pass as a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)


class OverrideRequest(Request):
    """A size in the place of the rule's."""

    workers: Annotated[int, Field(ge=0, le=WORKERS_MOST)]
    """Within the job's limits."""
    lasting_s: Annotated[float, Field(gt=0, le=WEEK_S)]
    """How long it holds, in seconds; a week at most."""
    reason: Annotated[Words, Field(min_length=1)]
    """Why, for the audit log."""


class PauseRequest(Request):
    """Why the job is paused."""

    reason: Words = ""


class RollbackRequest(Request):
    """Which version of the forecasting models is bad, and why."""

    version: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,40}$")]
    """The one in force, as `training.version` of `GET /v1/jobs/{job_id}/forecast` tells."""
    reason: Annotated[Words, Field(min_length=1)]
    """Why, for the audit log."""


class ModeRequest(Request):
    """Act, or only recommend."""

    mode: Mode


@router.post("/override")
async def override(
    *,
    who: Operator,
    record: KnownJob,
    site: TheSite,
    version: MaybeVersion,
    response: Response,
    wanted: Annotated[OverrideRequest, Body(openapi_examples={"campaign": {"value": OVERRIDE}})],
) -> JobView:
    """Set the pool's size by hand, until it expires. It beats the rule and a pause."""
    after = await site.controller.desk.override(
        record.name,
        wanted.workers,
        who.caller,
        lasting_s=wanted.lasting_s,
        reason=wanted.reason,
        expected=version,
    )
    return await shown(site, after, response)


@router.delete("/override")
async def end_override(
    who: Operator, record: KnownJob, site: TheSite, version: MaybeVersion, response: Response
) -> JobView:
    """Give the pool's size back to the rule before the override expires."""
    after = await site.controller.desk.end_override(record.name, who.caller, expected=version)
    return await shown(site, after, response)


@router.post("/pause")
async def pause(
    *,
    who: Operator,
    record: KnownJob,
    site: TheSite,
    version: MaybeVersion,
    response: Response,
    wanted: Annotated[PauseRequest | None, Body(openapi_examples={"moving": {"value": PAUSE}})] = None,
) -> JobView:
    """Leave the pool as it is. Decisions go on being recorded, with what the rule would do."""
    reason = wanted.reason if wanted else ""
    after = await site.controller.desk.pause(record.name, who.caller, reason=reason, expected=version)
    return await shown(site, after, response)


@router.post("/resume")
async def resume(
    who: Operator, record: KnownJob, site: TheSite, version: MaybeVersion, response: Response
) -> JobView:
    """Size the pool again."""
    after = await site.controller.desk.resume(record.name, who.caller, expected=version)
    return await shown(site, after, response)


@router.post("/mode")
async def set_mode(
    *,
    who: Operator,
    record: KnownJob,
    site: TheSite,
    version: MaybeVersion,
    response: Response,
    wanted: Annotated[ModeRequest, Body(openapi_examples={"shadow": {"value": MODE}})],
) -> JobView:
    """`act` carries decisions out; `recommend` only records them."""
    after = await site.controller.desk.set_mode(record.name, wanted.mode, who.caller, expected=version)
    return await shown(site, after, response)


@router.post("/forecast/rollback")
async def roll_back_models(
    *,
    who: Operator,
    record: KnownJob,
    seen: ObservedJob,
    site: TheSite,
    version: MaybeVersion,
    response: Response,
    wanted: Annotated[RollbackRequest, Body(openapi_examples={"bad": {"value": ROLLBACK}})],
) -> JobView:
    """Serve this version of the forecasting models no more: the one before it does, else light models.

    It stays so until a training beats what then serves. Jobs with the same forecast settings share
    their models, and go back together: this needs a token that is good for all jobs.
    """
    good_for_all(who)
    training = seen.forecast.training if seen.forecast else None
    in_force = training.version if training else ""
    if wanted.version != in_force:
        found = f"version {in_force} is" if in_force else "no trained models are"
        raise Unfitting(f"version {wanted.version} is not in force in job {record.name!r}: {found}")
    after = await site.controller.desk.roll_back_models(
        record.name, wanted.version, who.caller, reason=wanted.reason, expected=version
    )
    return await shown(site, after, response)
