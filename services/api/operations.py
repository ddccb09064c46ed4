"""Health, readiness and metrics: for those who run the controller. No token, a listener of their own."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request, Response
from prometheus_client.exposition import choose_encoder

from services.api.problems import add_problems
from services.api.site import Site, TheSite
from services.api.views import ReadinessView

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"model": ReadinessView}})
async def readyz(response: Response, site: TheSite) -> ReadinessView:
    """Whether decisions can be made; says which dependency is in the way. A follower is ready."""
    readiness = site.controller.readiness()
    response.status_code = 200 if readiness.ready else 503
    return ReadinessView.of(readiness)


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, site: TheSite) -> Response:
    """Prometheus metrics; with the decisions behind them as exemplars for who accepts OpenMetrics."""
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(site.registry), media_type=media_type)


def create_operations_app(site: Site) -> FastAPI:
    """The application of the second listener."""
    app = FastAPI(title="Penstock operations", version="1", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.site = site
    app.include_router(router)
    add_problems(app)
    return app
