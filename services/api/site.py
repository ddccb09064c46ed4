"""What the API stands on: one controller, its stores and its settings, injected into the routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol, cast

from fastapi import Depends, Request
from prometheus_client import CollectorRegistry

from services.api.event_feed import EventFeed
from services.api.what_if import WhatIf
from services.control.types import Actuation, Decision
from services.controller.desk import Desk
from services.controller.fleet_desk import FleetDesk
from services.controller.readiness import Readiness
from services.controller.snapshot import JobSnapshot
from services.settings.root import ApiSettings
from services.store.job_record import JobRecord
from services.store.streams import StreamLog
from services.store.tokens import TokenStore


class ControllerState(Protocol):
    """What the API may know of the controller behind it."""

    @property
    def jobs(self) -> dict[str, JobRecord]: ...

    @property
    def leading(self) -> bool: ...

    @property
    def desk(self) -> Desk: ...

    @property
    def fleet(self) -> FleetDesk: ...

    async def snapshot(self, job: str) -> JobSnapshot | None: ...

    def readiness(self) -> Readiness: ...

    async def decisions(self, job: str, *, limit: int) -> tuple[Decision, ...]: ...

    async def actuations(self, job: str, *, limit: int) -> tuple[Actuation, ...]: ...


@dataclass(frozen=True, slots=True)
class Site:
    """One installation."""

    controller: ControllerState
    tokens: TokenStore
    audit: StreamLog
    events: EventFeed
    settings: ApiSettings
    registry: CollectorRegistry
    what_if: WhatIf | None = None
    admin_token: str | None = None
    """One more token, from a file; it works without the store."""


def site(request: Request) -> Site:
    """The site that this application shows."""
    return cast(Site, request.app.state.site)


TheSite = Annotated[Site, Depends(site)]
