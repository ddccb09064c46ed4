"""How the fleet's GPUs are shared, what a new job would do to everybody, and who suffers with fewer nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import Field, NonNegativeFloat, PositiveFloat, StringConstraints

from estimator.fleet import InvalidFleet, Standing
from estimator.fleet.admission import Admission, Outcome
from estimator.fleet.budget_what_if import BudgetWhatIf
from estimator.fleet.contention import TypeAhead
from estimator.fleet.plan import Allotment
from services.api.actions import Request
from services.api.dependencies import Operator, Viewer
from services.api.examples import ADMISSION, FEWER_NODES
from services.api.principal import Principal
from services.api.problems import ApiProblem, Kind
from services.api.site import Site, TheSite
from services.api.views import AllotmentView, FleetShareView, FleetTypeView, WorkerAdviceView
from services.clock import SystemClock
from services.controller.fleet_desk import FleetState, newcomer
from services.controller.views.view import View
from services.settings.job import JOB_ID, JobSettings
from services.store.job_record import JobRecord

router = APIRouter(prefix="/v1/fleet", tags=["fleet"])

EFFECTS_MAX = 50
"""Jobs named in an answer, the most harmed first."""

GpuName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
NodeName = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]*$")]
Rate = Annotated[float, Field(ge=0, le=1e12)]


class AdmissionRequest(Request):
    """A job that wants in, as somebody describes it."""

    name: Annotated[str, StringConstraints(pattern=JOB_ID)]
    rates: Annotated[
        dict[GpuName, Annotated[float, Field(gt=0, le=1e12)]], Field(min_length=1, max_length=20)
    ]
    """Samples/s of a lone worker, by the GPU types it may run on; the first holds its guarantee."""
    hourly_per_s: Annotated[list[Rate], Field(default_factory=list, max_length=168)]
    """Traffic by hour from now on; it repeats until a week is full."""
    mean_per_s: Rate | None = None
    """Mean traffic, in the place of `hourly_per_s`: its day has the shape that the group's days have."""
    group: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    """Same owner, same model: jobs that are there and tell what this one will be like."""
    tenant: Annotated[str, StringConstraints(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""
    weight: Annotated[NonNegativeFloat, Field(le=1e6)] = 1.0
    guaranteed: Annotated[int, Field(ge=0, le=10_000)] = 0
    workers_max: Annotated[int, Field(ge=1, le=10_000)] = 64
    gpus_per_worker: Annotated[PositiveFloat, Field(le=1024)] = 1.0
    """A quarter, a half, or whole GPUs."""
    fresh_within_s: Annotated[PositiveFloat, Field(le=1e9)] = 60.0


class EffectView(View):
    """What the change does to one job."""

    job: str
    late_share_before: float
    late_share_after: float


class OutcomeView(View):
    """What accepting does over so many hours."""

    hours: int
    late_share: float
    """Of the new job."""
    bill_before: float
    """What the GPUs of all jobs cost without it, at the fleet's prices."""
    bill_after: float
    effects: list[EffectView]
    """The most harmed first."""


class AdmissionView(View):
    """Whether the job may come in, and what that would do."""

    verdict: str
    why: str
    start_s: float
    """From now until a queued job may begin."""
    outcomes: list[OutcomeView]


class FewerNodesRequest(Request):
    """Nodes to do without."""

    nodes: Annotated[list[NodeName], Field(min_length=1, max_length=1000)]


class SuffererView(View):
    """A job for which something would change."""

    job: str
    workers_before: int
    workers_after: int
    satisfaction_before: float
    satisfaction_after: float


class FewerNodesView(View):
    """Who would suffer, the most first."""

    jobs: list[SuffererView]
    shadow_prices: dict[str, float]
    """By GPU type, what one more GPU would then be worth."""


class TypeAheadView(View):
    """GPUs of one type over the hours to come."""

    gpu_type: str
    gpus: int
    """There now."""
    wished: list[float]
    """By hour, what the jobs on it would take if each were alone."""
    short_in_h: int | None
    """Hours until more is wished than there is; null where that is not in sight."""


class FleetAheadView(View):
    """Contention as it is forecast."""

    from_s: float
    types: list[TypeAheadView]


@router.post("/admission")
async def ask_admission(
    who: Operator,
    site: TheSite,
    job: Annotated[AdmissionRequest, Body(openapi_examples={"video": {"value": ADMISSION}})],
) -> AdmissionView:
    """What accepting a job would do to everyone's late share and to the bill over a day and a week.

    From forecasts and what past weeks were like. Nothing is changed.
    """
    _good_for_all(who)
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
    return _admission(answer)


def _hourly(job: AdmissionRequest, site: Site, jobs: Mapping[str, JobSettings], now_s: float) -> list[float]:
    """A day of the group's shape from now on, at the mean that was given. Raises InvalidFleet."""
    if job.mean_per_s is None:
        raise InvalidFleet("the job's traffic is not given: hourly_per_s, or mean_per_s and a group")
    prior = site.controller.fleet.prior(job.group, next(iter(job.rates)), jobs)
    if prior is None:
        raise InvalidFleet(f"nothing is known of group {job.group!r}: give the job's traffic as hourly_per_s")
    return [job.mean_per_s * share for share in prior.from_hour(int(now_s // 3600) % 24)]


@router.post("/what-if")
async def ask_fewer_nodes(
    who: Viewer,
    site: TheSite,
    terms: Annotated[FewerNodesRequest, Body(openapi_examples={"one": {"value": FEWER_NODES}})],
) -> FewerNodesView:
    """Who suffers, by the latest wishes, while these nodes are away. Nothing is changed."""
    _good_for_all(who)
    try:
        answer = site.controller.fleet.without(terms.nodes)
    except InvalidFleet as error:
        raise ApiProblem(Kind.CONFLICT, str(error)) from error
    if answer is None:
        raise _no_fleet()
    return _fewer(answer)


@router.get("/ahead")
async def read_ahead(who: Viewer, site: TheSite) -> FleetAheadView:
    """How many GPUs of each type will be wished in each of the next 24 hours, and when there are too few.

    From forecasts where they reach, then from what past weeks were like.
    """
    _good_for_all(who)
    jobs = {name: record.settings for name, record in site.controller.jobs.items()}
    now_s = SystemClock().now_s()
    answer = await asyncio.to_thread(site.controller.fleet.ahead, jobs, now_s=now_s)
    if answer is None:
        raise _no_fleet()
    return FleetAheadView(from_s=now_s, types=[_type_ahead(one) for one in answer])


def _type_ahead(one: TypeAhead) -> TypeAheadView:
    return TypeAheadView(
        gpu_type=one.gpu_type, gpus=one.gpus, wished=list(one.wished), short_in_h=one.short_from
    )


def _good_for_all(who: Principal) -> None:
    """An answer names every job of the fleet."""
    if who.jobs is not None:
        raise ApiProblem(Kind.FORBIDDEN, "this is about all jobs; the token is good for some of them only")


def shared(site: Site, who: Principal) -> FleetShareView | None:
    """How the GPUs are shared, of the jobs that the token is good for; None without a fleet."""
    fleet = site.controller.fleet
    try:
        state = fleet.state()
    except InvalidFleet as error:
        return FleetShareView(method="none", types=[], jobs=[], note="", trouble=str(error))
    if state is None:
        return None
    jobs = [_allotment(state, allotment, site) for allotment in state.plan.allotments]
    return FleetShareView(
        method=state.plan.method,
        types=_types(state),
        jobs=[job for job in jobs if who.good_for(job.job)],
        note=state.plan.note,
        trouble=state.trouble,
    )


def _types(state: FleetState) -> list[FleetTypeView]:
    budget, declared = state.budget, state.budget.declared
    wished: dict[str, float] = {}
    held: dict[str, float] = {}
    for allotment in state.plan.allotments:
        at = state.held[allotment.job]
        wished[at.gpu_type] = (
            wished.get(at.gpu_type, 0.0) + state.asked[allotment.job] * allotment.gpus_per_worker
        )
        held[at.gpu_type] = held.get(at.gpu_type, 0.0) + at.workers * allotment.gpus_per_worker
    return [
        FleetTypeView(
            gpu_type=kind,
            gpus=gpus,
            lost=declared[kind] - gpus,
            price=budget.price(kind),
            wished=wished.get(kind, 0.0),
            held=held.get(kind, 0.0),
            batch=state.batch.get(kind, 0.0),
            contended=kind in state.plan.contended,
            shadow_price=state.plan.prices.get(kind, 0.0),
        )
        for kind, gpus in budget.gpus.items()
    ]


def _allotment(state: FleetState, allotment: Allotment, site: Site) -> AllotmentView:
    at = state.held[allotment.job]
    record = site.controller.jobs.get(allotment.job.name)
    return AllotmentView(
        job=allotment.job.name,
        tenant=allotment.job.tenant,
        gpu_type=at.gpu_type,
        asked=state.asked[allotment.job],
        share=allotment.given.workers,
        held=at.workers,
        guaranteed=0 if record is None else record.settings.standing(record.name).guaranteed,
        lent=state.lent.get(allotment.job, 0),
        weight=allotment.weight,
        satisfaction=allotment.satisfaction,
        binding=allotment.binding,
        worth=dict(allotment.worth),
        worker=None if record is None else _worker(site, record),
    )


def _worker(site: Site, record: JobRecord) -> WorkerAdviceView | None:
    """What one of its workers should be made of; None where nobody can tell."""
    shape = site.controller.fleet.advice(record.name, record.settings)
    if shape is None:
        return None
    return WorkerAdviceView(advice=shape.advice, gpu_share=shape.gpu_share, cores=shape.cores)


def _admission(answer: Admission) -> AdmissionView:
    outcomes = [_outcome(outcome) for outcome in answer.outcomes]
    return AdmissionView(verdict=answer.verdict, why=answer.why, start_s=answer.start_s, outcomes=outcomes)


def _outcome(outcome: Outcome) -> OutcomeView:
    effects = [
        EffectView(
            job=effect.job.name, late_share_before=effect.late_before, late_share_after=effect.late_after
        )
        for effect in outcome.effects
    ]
    return OutcomeView(
        hours=outcome.steps,
        late_share=outcome.late,
        bill_before=outcome.bill_before,
        bill_after=outcome.bill_after,
        effects=effects[:EFFECTS_MAX],
    )


def _fewer(answer: BudgetWhatIf) -> FewerNodesView:
    jobs = [
        SuffererView(
            job=change.job.name,
            workers_before=change.before.given.workers,
            workers_after=change.after.given.workers,
            satisfaction_before=change.before.satisfaction,
            satisfaction_after=change.after.satisfaction,
        )
        for change in answer.changes
    ]
    return FewerNodesView(jobs=jobs, shadow_prices=dict(answer.after.prices))


def _no_fleet() -> ApiProblem:
    return ApiProblem(
        Kind.NOT_HERE, "no fleet is configured; give the GPUs there are under `fleet` in the settings"
    )
