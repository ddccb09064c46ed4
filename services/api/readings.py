"""What a job sees, forecasts, decided and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response

from services.api.dependencies import KnownJob, ObservedJob, Viewer
from services.api.plan_view import PlanView
from services.api.problems import ApiProblem, Kind
from services.api.site import TheSite
from services.api.views import AssignmentView, SeriesView
from services.control.types import Reason
from services.controller.snapshot import JobSnapshot
from services.controller.views.decision import DecisionView
from services.controller.views.forecast import ForecastView
from services.controller.views.quality import QualityView
from services.controller.views.safety import ActuationView, SafetyView
from services.controller.views.throughput import ThroughputView
from services.controller.views.traffic import TrafficView
from services.controller.views.view import View
from services.controller.views.workers import WorkerView
from services.store.memory_state import DECISIONS_KEPT

router = APIRouter(prefix="/v1/jobs/{job_id}", tags=["readings"])

Limit = Annotated[int, Query(ge=1, le=DECISIONS_KEPT, description="How many at most.")]


def _missing(what: str) -> ApiProblem:
    return ApiProblem(Kind.NOT_READY, f"{what}; try again in a moment", headers={"Retry-After": "2"})


@router.get("/plan")
async def read_plan(who: Viewer, record: KnownJob, seen: ObservedJob) -> PlanView:
    """The pool size in force, why, what binds it, and what other sizes would mean."""
    del who
    if seen.plan is None:
        raise _missing("no decision has been made yet")
    return PlanView.of_snapshot(seen.plan, seen, record.settings)


@router.get("/decisions")
async def list_decisions(
    *,
    who: Viewer,
    record: KnownJob,
    site: TheSite,
    response: Response,
    limit: Limit = 100,
    reason: Annotated[Reason | None, Query(description="Only decisions with this reason or note.")] = None,
    resized: Annotated[bool, Query(description="Only decisions that asked for another size.")] = False,
    before: Annotated[
        str | None, Query(max_length=200, description="Only decisions older than the one with this id.")
    ] = None,
) -> list[DecisionView]:
    """The latest decisions, newest first. The header `Link: ...; rel="next"` leads to older ones."""
    del who
    whole = reason is not None or resized or before is not None
    found = list(await site.controller.decisions(record.name, limit=DECISIONS_KEPT if whole else limit + 1))
    if before is not None:
        place = next((i for i, decision in enumerate(found) if decision.id == before), None)
        if place is None:
            raise ApiProblem(Kind.NOT_FOUND, "the decision named by `before` is not kept any more")
        found = found[place + 1 :]
    found = [
        decision
        for decision in found
        if (reason is None or reason in (decision.reason, *decision.notes))
        and (not resized or decision.resize is not None)
    ]
    if len(found) > limit:
        query = {"limit": limit, "before": found[limit - 1].id}
        query |= {"reason": reason.value} if reason else {}
        query |= {"resized": "true"} if resized else {}
        response.headers["Link"] = f'</v1/jobs/{record.name}/decisions?{urlencode(query)}>; rel="next"'
    return [DecisionView.of(decision) for decision in found[:limit]]


@router.get("/actuations")
async def list_actuations(
    who: Viewer, record: KnownJob, site: TheSite, limit: Limit = 100
) -> list[ActuationView]:
    """The trail of the pool's resizes, newest first: written before each was done, and how it ended."""
    del who
    return [ActuationView.like(one) for one in await site.controller.actuations(record.name, limit=limit)]


@router.get("/series")
async def read_series(who: Viewer, record: KnownJob, site: TheSite, limit: Limit = 300) -> SeriesView:
    """The latest ticks as columns, oldest first."""
    del who
    found = [DecisionView.of(d) for d in reversed(await site.controller.decisions(record.name, limit=limit))]

    def column(name: str) -> list[float | None]:
        return [decision.numbers.get(name) for decision in found]

    return SeriesView(
        id=[decision.id for decision in found],
        at_s=[decision.at_s for decision in found],
        rate_per_s=column("rate_per_s"),
        trained_per_s=column("trained_per_s"),
        lag_s=column("lag_s"),
        capacity_per_s=column("capacity_ready_per_s"),
        planned=[decision.planned for decision in found],
        requested=[decision.requested for decision in found],
        ready=[decision.ready for decision in found],
        reason=[decision.reason for decision in found],
    )


@router.get("/assignment")
async def read_assignment(who: Viewer, seen: ObservedJob) -> AssignmentView:
    """Which worker prefers which partitions, and how evenly."""
    del who
    return AssignmentView.of(seen)


@router.get("/workers")
async def list_workers(who: Viewer, seen: ObservedJob) -> list[WorkerView]:
    """The workers of the pool."""
    del who
    return seen.workers


@router.get("/snapshot")
async def read_snapshot(who: Viewer, seen: ObservedJob) -> JobSnapshot:
    """All readings at once, as of the latest tick: what the web page shows."""
    del who
    return seen


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of the snapshot, shown alone."""

    path: str
    view: type[View]
    of: Callable[[JobSnapshot], View | None]
    text: str
    missing: str
    """Why it may not be there yet."""

    async def read(self, who: Viewer, seen: ObservedJob) -> View:
        """The part, or 503 while nothing is known of it."""
        del who
        found = self.of(seen)
        if found is None:
            raise _missing(self.missing)
        return found


_PARTS = (
    _Part(
        "traffic",
        TrafficView,
        lambda seen: seen.traffic,
        "Traffic and progress as last measured, by partition too, and the traffic of two seasons before.",
        "traffic has not been measured yet",
    ),
    _Part(
        "forecast",
        ForecastView,
        lambda seen: seen.forecast,
        "The forecast behind the latest decision, its score, and what earlier ones had said of the past.",
        "no model has enough history to forecast yet",
    ),
    _Part(
        "throughput",
        ThroughputView,
        lambda seen: seen.throughput,
        "How many samples a second n workers can train, how sure that is, and what binds.",
        "throughput is not known yet",
    ),
    _Part(
        "safety",
        SafetyView,
        lambda seen: seen.safety,
        "How often the pool was resized lately, and whether a circuit breaker holds it.",
        "no decision has been made yet",
    ),
    _Part(
        "quality",
        QualityView,
        lambda seen: seen.quality,
        "How many samples were late, and how good the model is when the trainer tells.",
        "nobody counts this job's samples: it runs without leases, or has just started",
    ),
)

for _part in _PARTS:
    router.add_api_route(
        f"/{_part.path}",
        _part.read,
        response_model=_part.view,
        name=f"read_{_part.path}",
        description=_part.text,
    )
