"""A site in memory: a controller that ticks when told to, with tokens, audit log and events."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from forecasting.history import TrafficHistory
from services.access.audit import AuditEntry
from services.access.role import Role
from services.access.token import Token
from services.api.app import create_app
from services.api.event_feed import EventFeed
from services.api.examples import ROLLBACK
from services.api.operations import create_operations_app
from services.api.site import Site
from services.api.what_if import Answer, Point, Question
from services.clock import SystemClock
from services.control.decide import decide
from services.control.errors import StateUnavailable
from services.control.loop import Tick
from services.control.types import Actuation, ControlState, Decision, WorkerReport
from services.controller.book import JobBook
from services.controller.desk import Desk
from services.controller.fleet_desk import FleetDesk
from services.controller.journal import Journal
from services.controller.metrics import Metrics
from services.controller.publisher import events_of
from services.controller.readiness import Readiness
from services.controller.snapshot import JobSnapshot
from services.controller.views.forecast import TrainingView
from services.controller.views.quality import QualityView
from services.settings import JobSettings
from services.settings.fleet import FleetSettings, GpuTypeSettings
from services.settings.root import ApiSettings
from services.settings.scaling import SloSettings
from services.store.jobs import MemoryJobs
from services.store.streams import EVENTS_KEPT, Entry, MemoryStream, StreamId
from services.store.tokens import MemoryTokens
from tests.control.worlds import a_policy, a_pool, an_observation

KNOB = (0.5, 0.7, 0.9)
HISTORY = TrafficHistory(start_s=0.0, step_s=60.0, rates=np.full(40, 100.0))
"""Too short for a model of the traffic: what is decided here follows from the rate and the forecast given."""


class FragileStream(MemoryStream):
    """A log whose readers a test can cut off."""

    away = ""
    refused = 0

    async def wait(self, last: StreamId, *, limit: int) -> list[Entry]:
        if self.away:
            self.refused += 1
            raise StateUnavailable(self.away)
        return await super().wait(last, limit=limit)


def trained(version: str) -> TrainingView:
    """Forecasting models in force."""
    return TrainingView(
        version=version,
        models=["patchtst"],
        phase="done",
        stage="done",
        share=1.0,
        rejected=[],
        fault="",
        advice="",
    )


class FakeController:
    """Its jobs are real; its ticks come when a test says so."""

    def __init__(
        self, jobs: MemoryJobs, registry: CollectorRegistry, *, allow_commands: bool = False
    ) -> None:
        self.journal = Journal(Metrics(registry))
        seeds = {"clicks": JobSettings(topic="clicks-raw"), "views": JobSettings(topic="views-raw")}
        self.book = JobBook(jobs, seeds, SystemClock())
        contents = FleetSettings(gpu_types={"a100": GpuTypeSettings(gpus=16, price=2.0)})
        self.fleet = FleetDesk(contents, interval_s=0.1, status=self.journal.status)
        self.desk = Desk(self.book, SystemClock(), allow_commands=allow_commands, check_jobs=self.fleet.check)
        self.said = Readiness(leading=True, dependencies={"redis": "ok"})
        self.log: list[Decision] = []
        self.failure: Exception | None = None
        self.leading = True
        self.late_share = 0.005
        self.training: TrainingView | None = trained(ROLLBACK["version"])

    @property
    def jobs(self) -> Any:
        return self.book.live

    def readiness(self) -> Readiness:
        return self.said

    async def snapshot(self, job: str) -> JobSnapshot | None:
        status, record = self.journal.status(job), self.book.get(job)
        if status is None or record is None:
            return None
        quality = QualityView(trained=1000, late=5, late_share=self.late_share, repeated=0, lost=0)
        return JobSnapshot.of(status, record.settings, quality=quality, training=self.training)

    async def decisions(self, job: str, *, limit: int) -> tuple[Decision, ...]:
        if self.failure:
            raise self.failure
        return tuple(d for d in reversed(self.log) if d.job == job)[:limit]

    async def actuations(self, job: str, *, limit: int) -> tuple[Actuation, ...]:
        if self.failure:
            raise self.failure
        made = [d.actuation for d in reversed(self.log) if d.job == job and d.actuation is not None]
        return tuple(made[:limit])

    def tick(
        self,
        *,
        rate: float = 450,
        coming: float | None = 500,
        lag_s: float = 0.0,
        late_share: float | None = None,
    ) -> Tick:
        """One tick of `clicks`, with the policy that the book has."""
        # Hardly busy, so that nothing is learned and sizes can be counted on fingers.
        report = WorkerReport("w-0", at_s=1000, trained=77, busy=0.04, rate_per_busy_s=100)
        at_s = 1000.0 + len(self.log)
        lag = round(lag_s * rate)
        seen = an_observation(at_s=at_s, rate=rate, lag=lag, coming=coming, pool=a_pool(2), reports=(report,))
        seen = replace(seen, history=HISTORY, traffic=replace(seen.traffic, late_share=late_share))
        state = ControlState(planned=2, sequence=len(self.log))
        decision = decide(seen, state, a_policy())
        if self.fleet.share is not None:
            standing = self.book.live["clicks"].settings.standing("clicks")
            self.fleet.share.grant(decision, standing, seen, a_policy().slo)
        self.log.append(decision)
        tick = Tick("clicks", at_s, seen, decision)
        self.journal.told(tick, slo=SloSettings())
        return tick


class FakeWhatIf:
    """Later is cheaper."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        fresh_s = question.job.slo.fresh_within_s
        if question.turned:
            points = [Point(f"knob={u}", fresh_s, u / fresh_s, 700 / u / fresh_s, 4.0, 8) for u in KNOB]
        else:
            points = [Point("", fresh_s, 0.3 / fresh_s, 1000 / fresh_s, 4.0, 8)]
        return Answer(tuple(points), traffic_s=3600.0, took_s=0.1)


@dataclass
class Rig:
    """Everything of one site."""

    settings: ApiSettings = field(
        default_factory=lambda: ApiSettings(requests_per_s=1e6, requests_burst=10**6)
    )
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    jobs: MemoryJobs = field(default_factory=lambda: MemoryJobs(events=FragileStream(kept=EVENTS_KEPT)))
    admin_token: str | None = None

    def __post_init__(self) -> None:
        self.tokens = MemoryTokens(audit=self.jobs.audit)
        self.controller = FakeController(
            self.jobs, self.registry, allow_commands=self.settings.allow_commands
        )
        self.what_if = FakeWhatIf()
        self.site = Site(
            controller=self.controller,
            tokens=self.tokens,
            audit=self.jobs.audit,
            events=EventFeed(self.jobs.events),
            settings=self.settings,
            registry=self.registry,
            what_if=self.what_if,
            admin_token=self.admin_token,
        )
        self.app: FastAPI = create_app(self.site)
        self.operations: FastAPI = create_operations_app(self.site)

    async def opened(self) -> Rig:
        await self.controller.book.open()
        return self

    async def token(
        self, role: Role = Role.ADMIN, *, jobs: tuple[str, ...] | None = None, lifetime_s: float | None = None
    ) -> str:
        """The text of a new token."""
        now_s = SystemClock().now_s()
        token, text = Token.mint(
            name=f"{role}-test", role=role, now_s=now_s, jobs=jobs, lifetime_s=lifetime_s
        )
        entry = AuditEntry(at_s=now_s, who="test", role="admin", action="token.create")
        await self.tokens.keep(token, audit=entry.written())
        return text

    async def tell(self, tick: Tick, before: Tick | None = None) -> None:
        """Publish a tick's events."""
        import json

        for kind, data in events_of(tick, before):
            await self.jobs.events.append({"kind": kind, "job": tick.job, "data": json.dumps(data)})

    def client(self, token: str | None = None, *, base_url: str = "http://localhost") -> TestClient:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return TestClient(self.app, base_url=base_url, headers=headers, raise_server_exceptions=False)
