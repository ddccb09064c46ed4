"""Jobs: what each is, what it sees, what it decided and why."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from services.api.dependencies import KnownJob, ObservedJob, TheController
from services.api.views import DecisionView, ForecastView, JobView, TrafficView, WorkerView

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@router.get("")
async def list_jobs(controller: TheController) -> list[JobView]:
    """Every job."""
    return [JobView.of(name, job, controller.status(name)) for name, job in sorted(controller.jobs.items())]


@router.get("/{job_id}")
async def read_job(job_id: KnownJob, controller: TheController) -> JobView:
    """One job."""
    return JobView.of(job_id, controller.jobs[job_id], controller.status(job_id))


@router.get("/{job_id}/plan")
async def read_plan(status: ObservedJob) -> DecisionView | None:
    """The pool size in force, and why."""
    return None if status.decision is None else DecisionView.of(status.decision)


@router.get("/{job_id}/decisions")
async def list_decisions(
    job_id: KnownJob, controller: TheController, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> list[DecisionView]:
    """The latest decisions, newest first."""
    return [DecisionView.of(decision) for decision in await controller.decisions(job_id, limit=limit)]


@router.get("/{job_id}/traffic")
async def read_traffic(status: ObservedJob) -> TrafficView | None:
    """Traffic and progress as last measured."""
    return None if status.seen is None else TrafficView.of(status.seen)


@router.get("/{job_id}/forecast")
async def read_forecast(status: ObservedJob) -> ForecastView | None:
    """The forecast behind the latest decision."""
    return None if status.seen is None else ForecastView.of(status.seen)


@router.get("/{job_id}/workers")
async def list_workers(status: ObservedJob) -> list[WorkerView]:
    """The workers of the pool."""
    return WorkerView.all_of(status)
