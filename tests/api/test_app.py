"""The API shows what the loop knows, and says what is wrong."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from services.api.app import create_app
from services.control.decide import decide
from services.control.errors import StateUnavailable
from services.control.loop import Tick
from services.control.types import ControlState, Decision, WorkerReport
from services.controller.journal import JobStatus, Journal
from services.controller.metrics import Metrics
from services.controller.readiness import Readiness
from services.settings import JobSettings
from tests.control.worlds import a_policy, a_pool, an_observation


class FakeController:
    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.jobs = {"clicks": JobSettings(topic="clicks-raw")}
        self.said = Readiness(leading=True, dependencies={"redis": "ok"})
        self.log: list[Decision] = []
        self.failure: Exception | None = None

    def status(self, job: str) -> JobStatus | None:
        return self.journal.status(job)

    def readiness(self) -> Readiness:
        return self.said

    async def decisions(self, job: str, *, limit: int) -> tuple[Decision, ...]:
        if self.failure:
            raise self.failure
        return tuple(reversed(self.log))[:limit]

    def tick(self) -> None:
        report = WorkerReport("w-0", at_s=1000, trained=77, busy=0.5, rate_per_busy_s=100)
        seen = an_observation(rate=450, coming=500, pool=a_pool(2), reports=(report,))
        decision = decide(seen, ControlState(planned=2), a_policy())
        self.log.append(decision)
        self.journal.told(Tick("clicks", 1000.0, seen, decision), slo_s=60)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def controller(registry: CollectorRegistry) -> FakeController:
    return FakeController(Journal(Metrics(registry)))


@pytest.fixture
def client(controller: FakeController, registry: CollectorRegistry) -> TestClient:
    return TestClient(create_app(controller, registry))


def test_jobs_are_listed_with_whether_they_are_well(client: TestClient, controller: FakeController) -> None:
    before = client.get("/v1/jobs").json()
    controller.tick()
    after = client.get("/v1/jobs/clicks").json()

    assert (before[0]["id"], before[0]["degraded"]) == ("clicks", True)
    assert (after["topic"], after["group"], after["degraded"]) == ("clicks-raw", "penstock-clicks", False)


def test_an_unknown_job_is_not_found_and_the_known_ones_are_named(client: TestClient) -> None:
    answer = client.get("/v1/jobs/clocks/plan")

    assert answer.status_code == 404
    assert "there are: clicks" in answer.json()["detail"]


def test_before_the_first_tick_the_answer_is_to_try_again(client: TestClient) -> None:
    assert client.get("/v1/jobs/clicks/plan").status_code == 503


def test_the_plan_says_why(client: TestClient, controller: FakeController) -> None:
    controller.tick()

    plan = client.get("/v1/jobs/clicks/plan").json()

    assert plan["planned"] == 5
    assert plan["reason"] == "forecast_rise"
    assert plan["numbers"]["rate_per_s"] == 450
    assert plan["resized"]


def test_traffic_forecast_and_workers_are_shown(client: TestClient, controller: FakeController) -> None:
    controller.tick()

    assert client.get("/v1/jobs/clicks/traffic").json()["partitions"] == 4
    assert client.get("/v1/jobs/clicks/forecast").json()["paths"]["0.95"][0] == 500
    workers = client.get("/v1/jobs/clicks/workers").json()
    assert [worker["trained"] for worker in workers] == [77, None]
    assert sorted(p for worker in workers for p in worker["partitions"]) == [0, 1, 2, 3]


def test_decisions_come_newest_first_and_bounded(client: TestClient, controller: FakeController) -> None:
    for _ in range(3):
        controller.tick()

    assert len(client.get("/v1/jobs/clicks/decisions?limit=2").json()) == 2
    assert client.get("/v1/jobs/clicks/decisions?limit=0").status_code == 422


def test_a_store_that_is_away_is_said_to_be(client: TestClient, controller: FakeController) -> None:
    controller.failure = StateUnavailable("no answer from redis")

    answer = client.get("/v1/jobs/clicks/decisions")

    assert answer.status_code == 503
    assert "no answer from redis" in answer.json()["detail"]


def test_health_and_readiness_differ(client: TestClient, controller: FakeController) -> None:
    controller.said = Readiness(leading=False, dependencies={"redis": "refused", "kafka": "ok"})

    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 503
    assert client.get("/readyz").json()["dependencies"]["redis"] == "refused"


def test_metrics_can_be_scraped(client: TestClient, controller: FakeController) -> None:
    controller.tick()

    families = {family.name for family in text_string_to_metric_families(client.get("/metrics").text)}

    assert {"penstock_lag_seconds", "penstock_workers", "penstock_decisions"} <= families
