"""What a new job would do to everybody, who suffers with fewer nodes, and when GPUs will be short."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Body

from estimator.fleet import InvalidFleet, Standing
from services.api.dependencies import Operator, Viewer, good_for_all
from services.api.examples import ADMISSION, FEWER_NODES, OTHER_GPUS
from services.api.fleet_question_views import (
    AdmissionRequest,
    AdmissionView,
    FleetAheadView,
    OtherBudgetRequest,
    OtherBudgetView,
    TypeAheadView,
)
from services.api.problems import ApiProblem, Kind
from services.api.site import Site, TheSite
from services.clock import SystemClock
from services.controller.fleet_outlooks import newcomer
from services.settings.job import JobSettings

router = APIRouter(prefix="/v1/fleet", tags=["fleet"])


@router.post("/admission")
async def ask_admission(
    who: Operator,
    site: TheSite,
    job: Annotated[AdmissionRequest, Body(openapi_examples={"video": {"value": ADMISSION}})],
) -> AdmissionView:
    """What accepting a job would do to everyone's late share and to the bill over a day and a week.

    From forecasts and what past weeks were like. Nothing is changed.
    """
    good_for_all(who)
    jobs = {name: record.settings for name, record in site.controller.jobs.items()}
    try:
        standing = Standing(
            job.name,
            job.tenant,
            job.weight,
            job.guaranteed,
            tuple(job.rates),
            job.gpus_per_worker,
            workers_max=job.workers_max,
        )
        now_s = SystemClock().now_s()
        hourly = job.hourly_per_s or _hourly(job, site, jobs, now_s)
        wanted = newcomer(standing, job.rates, hourly, slo_s=job.fresh_within_s)
        answer = await asyncio.to_thread(site.controller.fleet.admission, wanted, jobs, now_s=now_s)
    except InvalidFleet as error:
        raise ApiProblem(Kind.CONFLICT, str(error)) from error
    if answer is None:
        raise _no_fleet()
    return AdmissionView.of(answer)


def _hourly(job: AdmissionRequest, site: Site, jobs: Mapping[str, JobSettings], now_s: float) -> list[float]:
    """A day of the group's shape from now on, at the mean that was given. Raises InvalidFleet."""
    if job.mean_per_s is None:
        raise InvalidFleet("the job's traffic is not given: hourly_per_s, or mean_per_s and a group")
    prior = site.controller.fleet.prior(job.group, next(iter(job.rates)), jobs)
    if prior is None:
        raise InvalidFleet(f"nothing is known of group {job.group!r}: give the job's traffic as hourly_per_s")
    return [job.mean_per_s * share for share in prior.from_hour(int(now_s // 3600) % 24)]


@router.post("/what-if")
async def ask_other_budget(
    who: Viewer,
    site: TheSite,
    terms: Annotated[
        OtherBudgetRequest,
        Body(openapi_examples={"nodes": {"value": FEWER_NODES}, "gpus": {"value": OTHER_GPUS}}),
    ],
) -> OtherBudgetView:
    """Who suffers, or gains, by the latest wishes, with another budget: without some nodes, or with another
    number of GPUs of some types. Nothing is changed."""
    good_for_all(who)
    try:
        answer = await site.controller.fleet.what_if(terms.nodes, terms.gpus)
    except InvalidFleet as error:
        raise ApiProblem(Kind.CONFLICT, str(error)) from error
    if answer is None:
        raise _no_fleet()
    return OtherBudgetView.of(answer)


@router.get("/ahead")
async def read_ahead(who: Viewer, site: TheSite) -> FleetAheadView:
    """How many GPUs of each type will be wished in each of the next 24 hours, and when there are too few.

    From forecasts where they reach, then from what past weeks were like.
    """
    good_for_all(who)
    jobs = {name: record.settings for name, record in site.controller.jobs.items()}
    now_s = SystemClock().now_s()
    answer = await asyncio.to_thread(site.controller.fleet.ahead, jobs, now_s=now_s)
    if answer is None:
        raise _no_fleet()
    return FleetAheadView(from_s=now_s, types=[TypeAheadView.of(one) for one in answer])


def _no_fleet() -> ApiProblem:
    return ApiProblem(
        Kind.NOT_HERE, "no fleet is configured; give the GPUs there are under `fleet` in the settings"
    )
