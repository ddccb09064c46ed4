"""The REST application, with the web page."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from services.access.rate import RateLimit
from services.api import actions, events, fleet, fleet_questions, jobs, readings, what_if_routes
from services.api.api_metrics import ApiMetrics
from services.api.gate import Gate
from services.api.openapi import describe
from services.api.page import add_page
from services.api.principal import Doorkeeper
from services.api.problems import add_problems
from services.api.site import Site
from services.clock import SystemClock

_TAGS = [
    {"name": "fleet", "description": "All jobs at once; who one is; the audit log."},
    {"name": "jobs", "description": "Definitions. Changes need If-Match: lost updates get 412."},
    {"name": "readings", "description": "What a job sees, forecasts and decided, and why."},
    {"name": "actions", "description": "What operators do to a running job."},
    {"name": "what-if", "description": "What a change would cost, before it is made."},
    {"name": "events", "description": "What happens, as it happens."},
]


def create_app(site: Site) -> FastAPI:
    """The application over one site."""
    app = FastAPI(
        title="Penstock",
        version="1",
        description="Sizes GPU pools for online training on Kafka streams. Errors are RFC 9457 problems.",
        openapi_tags=_TAGS,
        docs_url=None,  # both pages of the framework fetch their scripts from elsewhere
        redoc_url=None,
    )
    app.state.site = site
    app.state.doorkeeper = Doorkeeper(
        site.tokens, SystemClock(), listens_on=site.settings.host, admin_token=site.admin_token
    )
    for part in (fleet, fleet_questions, jobs, readings, actions, what_if_routes, events):
        app.include_router(part.router)
    add_page(app)
    add_problems(app)
    describe(app)
    app.add_middleware(
        Gate,
        doorkeeper=app.state.doorkeeper,
        limit=RateLimit(per_s=site.settings.requests_per_s, burst=site.settings.requests_burst),
        body_bytes_max=site.settings.body_bytes_max,
        metrics=ApiMetrics(site.registry),
    )
    if site.settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=site.settings.cors_origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "If-Match", "Last-Event-ID"],
            expose_headers=["ETag", "Link", "Location", "Retry-After"],
        )
    return app
