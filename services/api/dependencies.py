"""What the routers need, injected."""

from __future__ import annotations

from typing import Annotated, Protocol, cast

from fastapi import Depends, HTTPException, Request
from prometheus_client import CollectorRegistry

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


def controller(request: Request) -> ControllerState:
    """The controller that this application shows."""
    return cast(ControllerState, request.app.state.controller)


def registry(request: Request) -> CollectorRegistry:
    """The controller's metrics."""
    return cast(CollectorRegistry, request.app.state.registry)


TheController = Annotated[ControllerState, Depends(controller)]
TheRegistry = Annotated[CollectorRegistry, Depends(registry)]


def known_job(job_id: str, controller: TheController) -> str:
    """The job's name, or 404 with the names there are."""
    if job_id not in controller.jobs:
        known = ", ".join(sorted(controller.jobs)) or "none"
        raise HTTPException(404, f"no job is called {job_id!r}; there are: {known}")
    return job_id


KnownJob = Annotated[str, Depends(known_job)]


def observed_job(job_id: KnownJob, controller: TheController) -> JobStatus:
    """What is known of the job, or 503 before its first observation."""
    status = controller.status(job_id)
    if status is None or status.seen is None:
        raise HTTPException(503, f"job {job_id!r} has not been observed yet; try again in a moment")
    return status


ObservedJob = Annotated[JobStatus, Depends(observed_job)]
