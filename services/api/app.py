"""The REST application. Routers return views; what they need is injected."""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import Depends, FastAPI, HTTPException, Query, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from services.api.views import DecisionView, ForecastView, JobView, ReadinessView, TrafficView, WorkerView
from services.control.errors import StateUnavailable
from services.control.types import Decision
from services.controller.journal import JobStatus
from services.controller.readiness import Readiness
from services.settings import JobSettings


class ControllerState(Protocol):
    """What the API may know of the controller behind it."""

    @property
    def jobs(self) -> dict[str, JobSettings]: ...

    def status(self, job: str) -> JobStatus | None: ...

    def readiness(self) -> Readiness: ...

    async def decisions(self, job: str, *, limit: int) -> tuple[Decision, ...]: ...


def create_app(controller: ControllerState, registry: CollectorRegistry) -> FastAPI:
    """The application over one controller."""
    app = FastAPI(
        title="Penstock",
        version="1",
        description="Proactive autoscaler for online training on Kafka streams.",
    )
    _add_operations(app, controller, registry)
    _add_jobs(app, controller)

    @app.exception_handler(StateUnavailable)
    async def store_away(_request: object, error: StateUnavailable) -> JSONResponse:
        return JSONResponse({"detail": f"the store does not answer: {error}"}, status_code=503)

    return app


def _add_operations(app: FastAPI, controller: ControllerState, registry: CollectorRegistry) -> None:
    @app.get("/healthz", tags=["operations"])
    async def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["operations"], responses={503: {"model": ReadinessView}})
    async def readyz(response: Response) -> ReadinessView:
        """Whether decisions can be made; says which dependency is in the way."""
        readiness = controller.readiness()
        response.status_code = 200 if readiness.ready else 503
        return ReadinessView.of(readiness)

    @app.get("/metrics", tags=["operations"], response_class=Response)
    async def metrics() -> Response:
        """Prometheus metrics."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _add_jobs(app: FastAPI, controller: ControllerState) -> None:
    def known_job(job_id: str) -> str:
        if job_id not in controller.jobs:
            known = ", ".join(sorted(controller.jobs)) or "none"
            raise HTTPException(404, f"no job is called {job_id!r}; there are: {known}")
        return job_id

    def ticked_job(job_id: Annotated[str, Depends(known_job)]) -> JobStatus:
        status = controller.status(job_id)
        if status is None or status.seen is None:
            raise HTTPException(503, f"job {job_id!r} has not been observed yet; try again in a moment")
        return status

    Known = Annotated[str, Depends(known_job)]  # noqa: N806 - a type
    Ticked = Annotated[JobStatus, Depends(ticked_job)]  # noqa: N806 - a type

    def job_view(job_id: str) -> JobView:
        return JobView.of(job_id, controller.jobs[job_id], controller.status(job_id))

    @app.get("/v1/jobs", tags=["jobs"])
    async def list_jobs() -> list[JobView]:
        """Every job."""
        return [job_view(job_id) for job_id in sorted(controller.jobs)]

    @app.get("/v1/jobs/{job_id}", tags=["jobs"])
    async def read_job(job_id: Known) -> JobView:
        """One job."""
        return job_view(job_id)

    @app.get("/v1/jobs/{job_id}/plan", tags=["jobs"])
    async def read_plan(status: Ticked) -> DecisionView | None:
        """The pool size in force, and why."""
        return None if status.decision is None else DecisionView.of(status.decision)

    @app.get("/v1/jobs/{job_id}/decisions", tags=["jobs"])
    async def list_decisions(
        job_id: Known, limit: Annotated[int, Query(ge=1, le=1000)] = 100
    ) -> list[DecisionView]:
        """The latest decisions, newest first."""
        return [DecisionView.of(d) for d in await controller.decisions(job_id, limit=limit)]

    @app.get("/v1/jobs/{job_id}/traffic", tags=["jobs"])
    async def read_traffic(status: Ticked) -> TrafficView | None:
        """Traffic and progress as last measured."""
        return None if status.seen is None else TrafficView.of(status.seen)

    @app.get("/v1/jobs/{job_id}/forecast", tags=["jobs"])
    async def read_forecast(status: Ticked) -> ForecastView | None:
        """The forecast behind the latest decision."""
        return None if status.seen is None else ForecastView.of(status.seen)

    @app.get("/v1/jobs/{job_id}/workers", tags=["jobs"])
    async def list_workers(status: Ticked) -> list[WorkerView]:
        """The workers of the pool."""
        return WorkerView.all_of(status)
