"""`POST /v1/jobs/{job}/what-if`: what another SLO or other bounds would cost."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Body
from pydantic import Field

from estimator.capacity import Capacity
from forecasting.history import TrafficHistory
from services.api.actions import Request
from services.api.dependencies import KnownJob, ObservedJob, Viewer
from services.api.examples import WHAT_IF
from services.api.problems import ApiProblem, Kind
from services.api.site import TheSite
from services.api.what_if import Answer, Point, Question, WhatIfUnavailable
from services.controller.snapshot import JobSnapshot
from services.controller.views.view import View
from services.settings import JobSettings
from services.settings.job import SloSettings

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["what-if"])


class WhatIfRequest(Request):
    """Terms to try; what is left out stays as it is."""

    slo: SloSettings | None = None
    workers_min: Annotated[int | None, Field(ge=0, le=10_000)] = None
    workers_max: Annotated[int | None, Field(ge=1, le=10_000)] = None


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

    @classmethod
    def of(cls, point: Point) -> PointView:
        """The same, as a document."""
        return cls(
            setting=point.setting,
            fresh_within_s=point.fresh_within_s,
            late_share=point.late_share,
            gpu_hours_per_day=point.gpu_hours_per_day,
            workers_mean=point.workers_mean,
            workers_max=point.workers_max,
            auc_loss=point.auc_loss,
        )


class WhatIfView(View):
    """What the terms asked about would come to, what those in force come to, and the curve behind."""

    asked: PointView
    in_force: PointView
    """The terms in force, played on the same traffic."""
    curve: list[PointView]
    """GPU-hours against late share under the terms asked about: the rule at each setting of its knob."""
    traffic_s: float
    """How much recent traffic was played again."""
    took_s: float


@router.post("/what-if")
async def ask_what_if(
    who: Viewer,
    record: KnownJob,
    seen: ObservedJob,
    site: TheSite,
    terms: Annotated[WhatIfRequest, Body(openapi_examples={"tighter": {"value": WHAT_IF}})],
) -> WhatIfView:
    """Predicted late share and GPU-hours a day under other terms, from the job's own recent traffic.

    The job's rule is played again on the simulator; nothing is changed.
    """
    del who
    if site.what_if is None:
        raise ApiProblem(Kind.NOT_HERE, "this controller was started without a simulator")
    job = _changed(record.settings, terms)
    capacity, history = _capacity(seen, record.settings), _history(seen)
    try:
        answer = await site.what_if.ask(Question(job, capacity, history))
        before = await site.what_if.ask(Question(record.settings, capacity, history, with_curve=False))
    except WhatIfUnavailable as error:
        raise ApiProblem(Kind.NOT_READY, f"what-if: {error}", headers={"Retry-After": "5"}) from error
    return _view(answer, before)


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


def _view(answer: Answer, before: Answer) -> WhatIfView:
    return WhatIfView(
        asked=PointView.of(answer.asked),
        in_force=PointView.of(before.asked),
        curve=[PointView.of(point) for point in answer.curve],
        traffic_s=answer.traffic_s,
        took_s=answer.took_s + before.took_s,
    )
