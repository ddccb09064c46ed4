"""Health, readiness and metrics: for those who run the controller."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services.api.dependencies import TheController, TheRegistry
from services.api.views import ReadinessView

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"model": ReadinessView}})
async def readyz(response: Response, controller: TheController) -> ReadinessView:
    """Whether decisions can be made; says which dependency is in the way."""
    readiness = controller.readiness()
    response.status_code = 200 if readiness.ready else 503
    return ReadinessView.of(readiness)


@router.get("/metrics", response_class=Response)
async def metrics(registry: TheRegistry) -> Response:
    """Prometheus metrics."""
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
