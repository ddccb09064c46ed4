"""`POST /v1/jobs/{job}/what-if`: what another SLO or other bounds would cost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Body
from fastapi import Request as HttpRequest
from pydantic import Field

from estimator.capacity import Capacity
from forecasting.history import TrafficHistory
from services.api.actions import Request
from services.api.dependencies import KnownJob, ObservedJob, Viewer
from services.api.examples import WHAT_IF
from services.api.problems import ApiProblem, Kind
from services.api.site import TheSite
from services.api.what_if import Question, WhatIf, WhatIfUnavailable
from services.controller.snapshot import JobSnapshot
from services.controller.views.view import View
from services.settings import JobSettings
from services.settings.scaling import FreshWithin, SloSettings

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["what-if"])


class WhatIfRequest(Request):
    """Terms to try; what is left out stays as it is."""

    slo: SloSettings | None = None
    workers_min: Annotated[int | None, Field(ge=0, le=10_000)] = None
    workers_max: Annotated[int | None, Field(ge=1, le=10_000)] = None
    curve: bool = True
    """Whether the rule's knob is turned too; without it the answer comes several times sooner."""
    fresh_within_s: list[FreshWithin] = Field(default_factory=list, max_length=8)
    """Other promises to try as well, each with the `late_share_target` asked about."""


class PointView(View):
    """What one setting would come to."""

    setting: str
    """Of the rule's knob, as in `utilisation=0.8`; empty for the job's own."""
    fresh_within_s: float
    late_share: float
    gpu_hours_per_day: float
    workers_mean: float
    workers_max: int
    auc_loss: float | None = None
    """AUC given away by training late, by the job's `auc_by_delay_s`; null where there is none."""


class WhatIfView(View):
    """What the terms asked about would come to, what those in force come to, and the curve behind."""

    asked: PointView
    in_force: PointView
    """The terms in force, played on the same traffic."""
    curve: list[PointView]
    """GPU-hours against late share under the terms asked about: the rule at several settings of its knob;
    empty when not asked for."""
    by_freshness: list[PointView] = Field(default_factory=list)
    """What the promises of `fresh_within_s` would come to, in the order asked for."""
    traffic_s: float
    """How much recent traffic was played again."""
    took_s: float


@router.post("/what-if")
async def ask_what_if(
    *,
    who: Viewer,
    record: KnownJob,
    seen: ObservedJob,
    site: TheSite,
    request: HttpRequest,
    terms: Annotated[WhatIfRequest, Body(openapi_examples={"tighter": {"value": WHAT_IF}})],
) -> WhatIfView:
    """Predicted late share and GPU-hours a day under other terms, from the job's own recent traffic.

    The job's rule is played again on the simulator; nothing is changed.
    """
    del who
    if site.what_if is None:
        raise ApiProblem(Kind.NOT_HERE, "this controller was started without a simulator")
    asked = Question(_changed(record.settings, terms), _capacity(seen, record.settings), _history(seen))
    answering = _view(
        site.what_if, asked, record.settings, curve=terms.curve, promises_s=terms.fresh_within_s
    )
    try:
        return await _while_there(request, answering)
    except WhatIfUnavailable as error:
        raise ApiProblem(Kind.NOT_READY, f"what-if: {error}", headers={"Retry-After": "5"}) from error


async def _while_there(request: HttpRequest, work: Coroutine[Any, Any, WhatIfView]) -> WhatIfView:
    """What `work` returns. It is given up when the caller leaves: a slider that moves on leaves questions
    behind that nobody waits for. Raises WhatIfUnavailable then, for the log."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_departure(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise WhatIfUnavailable("the caller has left")
        return working.result()
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.wait((working, leaving))


async def _departure(request: HttpRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _changed(job: JobSettings, terms: WhatIfRequest) -> JobSettings:
    given = terms.model_dump(include={"workers_min", "workers_max"})
    bounds = {name: value for name, value in given.items() if value is not None}
    content = job.model_dump(mode="json")
    content["scaling"] |= bounds
    if terms.slo is not None:
        content["slo"] = terms.slo.model_dump()
    return JobSettings.model_validate(content)


def _capacity(seen: JobSnapshot, job: JobSettings) -> Capacity:
    """As the snapshot has it: one worker's rate, and the contention that explains the last point."""
    if seen.throughput is None or len(seen.throughput.curve) < 3 or seen.throughput.curve[-1] <= 0:
        return Capacity(job.scaling.rate_per_worker)
    curve = seen.throughput.curve
    most = len(curve) - 1
    contention = (curve[1] * most / curve[most] - 1) / (most - 1)
    return Capacity(seen.throughput.rate_per_worker, contention=min(max(contention, 0.0), 0.99))


def _history(seen: JobSnapshot) -> TrafficHistory:
    history = seen.traffic.history if seen.traffic else None
    if history is None or len(history.rates) < 10:
        raise ApiProblem(
            Kind.NOT_READY, "too little traffic was seen to play it again", headers={"Retry-After": "30"}
        )
    rates = np.array([np.nan if rate is None else rate for rate in history.rates])
    return TrafficHistory(start_s=history.start_s, step_s=history.step_s, rates=rates)


async def _view(
    what_if: WhatIf, asked: Question, in_force: JobSettings, *, curve: bool, promises_s: list[float]
) -> WhatIfView:
    answers = [await what_if.ask(asked), await what_if.ask(replace(asked, job=in_force))]
    promised = [await what_if.ask(replace(asked, job=_promising(asked.job, s))) for s in promises_s]
    if curve:
        answers.append(await what_if.ask(replace(asked, turned=True)))
    return WhatIfView(
        asked=PointView.like(answers[0].points[0]),
        in_force=PointView.like(answers[1].points[0]),
        curve=[PointView.like(point) for answer in answers[2:] for point in answer.points],
        by_freshness=[PointView.like(answer.points[0]) for answer in promised],
        traffic_s=answers[0].traffic_s,
        took_s=sum(answer.took_s for answer in (*answers, *promised)),
    )


def _promising(job: JobSettings, fresh_within_s: float) -> JobSettings:
    return job.model_copy(update={"slo": job.slo.model_copy(update={"fresh_within_s": fresh_within_s})})
