"""The API shows what the loop knows, and says what is wrong."""

from __future__ import annotations

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from services.control.errors import StateUnavailable
from services.controller.readiness import Readiness
from tests.api.sites import Rig


async def test_jobs_are_listed_with_whether_they_are_well(client: TestClient, rig: Rig) -> None:
    before = client.get("/v1/jobs").json()
    rig.controller.tick()
    after = client.get("/v1/jobs/clicks").json()

    assert [job["id"] for job in before] == ["clicks", "views"]
    assert before[0]["degraded"]
    assert (after["topic"], after["group"], after["degraded"]) == ("clicks-raw", "penstock-clicks", False)


async def test_an_unknown_job_is_not_found_and_the_known_ones_are_named(client: TestClient) -> None:
    answer = client.get("/v1/jobs/clocks/plan")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert "there are: clicks, views" in answer.json()["detail"]


async def test_before_the_first_tick_the_answer_is_to_try_again(client: TestClient) -> None:
    answer = client.get("/v1/jobs/clicks/plan")

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"


async def test_the_plan_says_why_what_binds_and_what_else_there_was(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    plan = client.get("/v1/jobs/clicks/plan").json()

    assert plan["planned"] == 5
    assert plan["reason"] == "forecast_rise"
    assert plan["why"] == "More traffic is forecast than the pool can train."
    assert plan["binding"] == ""
    assert plan["numbers"]["rate_per_s"] == 450
    assert plan["resized"]
    others = {option["workers"]: option for option in plan["alternatives"]}
    assert others[4]["utilisation_now"] > 1 > others[5]["utilisation_now"]


async def test_the_plan_names_the_forecast_it_rests_on_and_what_would_change_it(
    client: TestClient, rig: Rig
) -> None:
    rig.controller.tick()

    plan = client.get("/v1/jobs/clicks/plan").json()

    assert plan["forecast"]["model"] == "flat"
    assert plan["forecast"]["heeded"]
    assert {"demand_per_s", "capacity_planned_per_s", "capacity_margin"} <= plan["numbers"].keys()
    assert plan["confidence"] == "low"
    assert plan["would_change"][0].startswith("A demand beyond")
    decision = client.get("/v1/jobs/clicks/decisions").json()[0]
    assert decision["forecast"] == plan["forecast"], "each decision kept tells it too"


async def test_a_plan_at_its_maximum_says_so(client: TestClient, rig: Rig) -> None:
    rig.controller.tick(rate=5000)

    plan = client.get("/v1/jobs/clicks/plan").json()
    assert plan["binding"] == "workers_max"
    assert "A higher workers_max." in plan["would_change"]
    assert 0.5 < plan["numbers"]["beyond_share"] < 1
    assert "workers_max" in client.get("/v1/jobs/clicks/throughput").json()["bottleneck"]


async def test_traffic_forecast_and_workers_are_shown(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    traffic = client.get("/v1/jobs/clicks/traffic").json()
    assert (traffic["partitions"], len(traffic["history"]["rates"])) == (4, 40)
    assert client.get("/v1/jobs/clicks/forecast").json()["paths"]["0.95"][0] == 500
    workers = client.get("/v1/jobs/clicks/workers").json()
    assert [worker["trained"] for worker in workers] == [77, None]
    assert sorted(p for worker in workers for p in worker["partitions"]) == [0, 1, 2, 3]
    assignment = client.get("/v1/jobs/clicks/assignment").json()
    assert [len(p["owners"]) for p in assignment["partitions"]] == [1, 1, 1, 1]
    assert assignment["imbalance"] == 1.0
    throughput = client.get("/v1/jobs/clicks/throughput").json()
    assert (throughput["confidence"], throughput["limit"], throughput["sizes_seen"]) == ("low", "unknown", [])
    assert throughput["curve"][2] >= throughput["curve_low"][2] > throughput["curve_low"][1] > 0
    assert throughput["lead_time_s"] == 60.0
    assert client.get("/v1/jobs/clicks/quality").json()["late_share"] == 0.005


async def test_a_forecast_that_does_not_exist_yet_is_not_an_empty_one(client: TestClient, rig: Rig) -> None:
    rig.controller.tick(coming=None)

    assert client.get("/v1/jobs/clicks/forecast").status_code == 503


async def test_decisions_come_newest_first_in_pages(client: TestClient, rig: Rig) -> None:
    for _ in range(5):
        rig.controller.tick()

    first = client.get("/v1/jobs/clicks/decisions?limit=2")
    following = client.get(first.links["next"]["url"])

    assert [d["id"] for d in first.json()] == ["clicks-5", "clicks-4"]
    assert [d["id"] for d in following.json()] == ["clicks-3", "clicks-2"]
    assert client.get("/v1/jobs/clicks/decisions?limit=0").status_code == 422
    assert client.get("/v1/jobs/clicks/decisions?before=no-such").status_code == 404


async def test_the_trail_and_the_safety_of_a_pool_are_shown(client: TestClient, rig: Rig) -> None:
    assert client.get("/v1/jobs/clicks/safety").status_code == 503
    rig.controller.tick(rate=900, coming=None)

    (resize,) = client.get("/v1/jobs/clicks/actuations").json()
    assert (resize["decision_id"], resize["outcome"]) == ("clicks-1", "asked")
    assert resize["before"] < resize["workers"]
    safety = client.get("/v1/jobs/clicks/safety").json()
    assert (safety["resizes_hour"], safety["breaker_up"]["phase"]) == (1, "closed")


async def test_decisions_are_filtered_by_reason_and_note(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()
    rig.controller.tick(rate=5000)

    assert len(client.get("/v1/jobs/clicks/decisions?reason=forecast_rise").json()) == 1
    assert len(client.get("/v1/jobs/clicks/decisions?reason=at_maximum").json()) == 1
    assert client.get("/v1/jobs/clicks/decisions?reason=whim").status_code == 422


async def test_the_series_has_equal_columns_oldest_first(client: TestClient, rig: Rig) -> None:
    for _ in range(3):
        rig.controller.tick()

    series = client.get("/v1/jobs/clicks/series?limit=2").json()

    assert {len(column) for column in series.values()} == {2}
    assert series["id"] == ["clicks-2", "clicks-3"]


async def test_the_fleet_adds_up(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    fleet = client.get("/v1/fleet").json()

    assert (fleet["planned"], fleet["ready"], fleet["degraded"]) == (5, 2, 1)
    assert fleet["rate_per_s"] == 450


async def test_a_store_that_is_away_is_said_to_be(client: TestClient, rig: Rig) -> None:
    rig.controller.failure = StateUnavailable("no answer from redis")

    answer = client.get("/v1/jobs/clicks/decisions")

    assert answer.status_code == 503
    assert "no answer from redis" in answer.json()["detail"]


async def test_a_bug_is_a_problem_document_that_tells_nothing_of_the_inside(
    client: TestClient, rig: Rig
) -> None:
    rig.controller.failure = RuntimeError("secret inside")

    answer = client.get("/v1/jobs/clicks/decisions")

    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:penstock:problem:internal"
    assert "secret inside" not in answer.text


async def test_health_and_readiness_differ_and_need_no_token(rig: Rig) -> None:
    operations = TestClient(rig.operations)
    rig.controller.said = Readiness(leading=False, dependencies={"redis": "refused", "kafka": "ok"})

    assert operations.get("/healthz").status_code == 200
    assert operations.get("/readyz").status_code == 503
    assert operations.get("/readyz").json()["dependencies"]["redis"] == "refused"


async def test_health_and_metrics_are_not_on_the_listener_of_the_api(client: TestClient) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert client.get(path).status_code == 404


async def test_metrics_can_be_scraped_and_count_requests_by_route(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()
    client.get("/v1/jobs/clicks")

    text = TestClient(rig.operations).get("/metrics").text

    families = {family.name for family in text_string_to_metric_families(text)}
    assert {"penstock_lag_seconds", "penstock_workers", "penstock_decisions"} <= families
    assert 'penstock_api_requests_total{method="GET",route="/v1/jobs/{job_id}",status="200"} 1.0' in text


async def test_the_decision_behind_a_metric_is_its_exemplar(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    text = TestClient(rig.operations).get("/metrics", headers={"Accept": "application/openmetrics-text"}).text

    assert '# {decision="clicks-1"} 1.0' in text


async def test_the_words_for_every_reason_are_there(client: TestClient) -> None:
    from services.api.words import WORDS
    from services.control.types import Reason

    assert set(WORDS) == set(Reason)
    assert set(client.get("/v1/reasons").json()) == {reason.value for reason in Reason}
