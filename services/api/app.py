"""The REST application."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry

from services.api import jobs, operations
from services.api.dependencies import ControllerState
from services.control.errors import StateUnavailable


def create_app(controller: ControllerState, registry: CollectorRegistry) -> FastAPI:
    """The application over one controller."""
    app = FastAPI(
        title="Penstock",
        version="1",
        description="Proactive autoscaler for online training on Kafka streams.",
    )
    app.state.controller = controller
    app.state.registry = registry
    app.include_router(operations.router)
    app.include_router(jobs.router)
    app.add_exception_handler(StateUnavailable, _store_away)
    return app


async def _store_away(_request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": f"the store does not answer: {error}"}, status_code=503)
