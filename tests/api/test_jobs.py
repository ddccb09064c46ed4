"""Jobs are changed without losing anybody's change, and what cannot be done is said."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from starlette.types import Message

from services.api.examples import JOB, MODE, OVERRIDE, PAUSE, ROLLBACK
from services.api.what_if import Answer, Question
from services.clock import SystemClock
from services.controller.book import JobBook
from services.settings.root import ApiSettings
from tests.api.sites import Rig, trained

ANY = {"If-Match": "*"}


async def test_a_job_is_made_read_replaced_patched_and_deleted(client: TestClient) -> None:
    made = client.post("/v1/jobs", json={"id": "ads", **JOB})
    read = client.get("/v1/jobs/ads")
    replaced = client.put(
        "/v1/jobs/ads", json={**JOB, "slo": {"fresh_within_s": 5}}, headers={"If-Match": read.headers["etag"]}
    )
    patched = client.patch(
        "/v1/jobs/ads",
        json={"scaling": {"workers_max": 24}, "slo": None},
        headers={"If-Match": replaced.headers["etag"]},
    )
    deleted = client.delete("/v1/jobs/ads", headers={"If-Match": patched.headers["etag"]})

    assert (made.status_code, made.headers["location"]) == (201, "/v1/jobs/ads")
    assert read.json()["settings"]["scaling"]["workers_max"] == 16
    assert replaced.json()["fresh_within_s"] == 5
    assert (patched.json()["workers_max"], patched.json()["fresh_within_s"]) == (24, 60)
    assert "drain" in deleted.json()["workers"]
    assert "kept" in deleted.json()["ledger"]
    assert client.get("/v1/jobs/ads").status_code == 404


async def test_a_rate_that_nobody_gave_stays_one_that_a_group_may_tell(client: TestClient, rig: Rig) -> None:
    def given() -> bool:
        return "rate_per_worker" in rig.controller.jobs["ads"].settings.scaling.model_fields_set

    client.post("/v1/jobs", json={"id": "ads", "topic": "ads", "scaling": {"workers_max": 9}})
    made = given()
    client.patch("/v1/jobs/ads", json={"scaling": {"workers_max": 8}}, headers={"If-Match": "*"})
    patched = given()
    client.patch("/v1/jobs/ads", json={"scaling": {"rate_per_worker": 500}}, headers={"If-Match": "*"})
    said = given()
    client.patch("/v1/jobs/ads", json={"scaling": {"rate_per_worker": None}}, headers={"If-Match": "*"})

    assert (made, patched, said, given()) == (False, False, True, False)


async def test_of_two_operators_who_read_the_same_version_the_second_is_told(client: TestClient) -> None:
    etag = client.get("/v1/jobs/clicks").headers["etag"]

    first = client.put("/v1/jobs/clicks/slo", json={"fresh_within_s": 30}, headers={"If-Match": etag})
    second = client.put("/v1/jobs/clicks/slo", json={"fresh_within_s": 40}, headers={"If-Match": etag})

    assert (first.status_code, second.status_code) == (200, 412)
    assert "somebody changed it" in second.json()["detail"]
    assert client.get("/v1/jobs/clicks").json()["fresh_within_s"] == 30


async def test_a_change_without_a_version_is_refused(client: TestClient) -> None:
    answer = client.put("/v1/jobs/clicks/slo", json={"fresh_within_s": 30})

    assert answer.status_code == 428
    assert "If-Match" in answer.json()["detail"]


async def test_a_weak_or_senseless_version_matches_nothing(client: TestClient) -> None:
    for etag in ('W/"1"', "1", '"x"', '"1", "2"', '"' + "9" * 40 + '"'):
        answer = client.put("/v1/jobs/clicks/slo", json={"fresh_within_s": 3}, headers={"If-Match": etag})
        assert answer.status_code == 412, etag


async def test_many_changes_at_once_are_all_done_or_told(rig: Rig) -> None:
    """Each of fifty operators reads, then writes. Every success raised the version by its own."""
    desk, book = rig.controller.desk, rig.controller.book
    from services.controller.desk import Caller
    from services.settings.scaling import SloSettings
    from services.store.job_record import StaleVersion

    async def operator(number: int) -> int | None:
        record = book.get("clicks")
        assert record is not None
        await asyncio.sleep(0)
        try:
            slo = SloSettings(fresh_within_s=float(number + 1))
            done = await desk.set_slo(
                "clicks", slo, Caller(f"op-{number}", "operator"), expected=record.version
            )
        except StaleVersion:
            return None
        return done.version

    versions = [v for v in await asyncio.gather(*map(operator, range(50))) if v is not None]

    assert versions
    assert len(set(versions)) == len(versions)
    entries = await rig.jobs.audit.before(None, limit=100)
    assert len([e for e in entries if b"job.slo" in e.fields["entry"]]) == len(versions)


async def test_a_job_that_is_there_cannot_be_made_again(client: TestClient) -> None:
    assert client.post("/v1/jobs", json={"id": "clicks", **JOB}).status_code == 409


async def test_two_jobs_cannot_share_topic_and_group(client: TestClient) -> None:
    answer = client.post("/v1/jobs", json={"id": "more", "topic": "clicks-raw", "group": "penstock-clicks"})

    assert answer.status_code == 409
    assert "give each its own group" in answer.json()["detail"]


async def test_what_a_running_job_cannot_change_is_refused(client: TestClient) -> None:
    for patch in (
        {"topic": "other"},
        {"group": "g"},
        {"shuffle": {"mode": "off"}},
        {"pool": {"kind": "recommend"}},
    ):
        answer = client.patch("/v1/jobs/clicks", json=patch, headers=ANY)
        assert answer.status_code == 409, patch
        assert "make a new job" in answer.json()["detail"]


async def test_programs_are_not_named_through_the_api(client: TestClient) -> None:
    wanted = {"pool": {"command": ["/bin/sh", "-c", "id"]}}

    assert client.patch("/v1/jobs/clicks", json=wanted, headers=ANY).status_code == 403
    assert client.post("/v1/jobs", json={"id": "x", **JOB, **wanted}).status_code == 403
    assert client.patch("/v1/jobs/clicks", json={"pool": {"run_dir": "/etc"}}, headers=ANY).status_code == 403
    for docker in ({"image": "evil"}, {"binds": ["/:/host"]}, {"env": {"LD_PRELOAD": "evil.so"}}):
        answer = client.patch("/v1/jobs/clicks", json={"pool": {"docker": docker}}, headers=ANY)
        assert answer.status_code == 403, docker


async def test_programs_may_be_named_where_that_is_allowed() -> None:
    rig = await Rig(settings=ApiSettings(allow_commands=True)).opened()
    wanted = {"id": "x", **JOB, "pool": {"command": ["train"]}}

    assert rig.client().post("/v1/jobs", json=wanted).status_code == 201


async def test_every_mistake_is_listed_with_its_field(client: TestClient) -> None:
    bad = {"id": "x", "topic": "t", "slo": {"fresh_within_s": -1}, "scaling": {"worker_max": 3}}

    problem = client.post("/v1/jobs", json=bad).json()

    assert [mistake["field"] for mistake in problem["errors"]] == ["slo.fresh_within_s", "scaling.worker_max"]
    patched = client.patch("/v1/jobs/clicks", json={"scaling": {"workers_min": 99}}, headers=ANY)
    assert patched.status_code == 422
    assert "workers_min (99) is above workers_max (8)" in patched.json()["detail"]


async def test_an_override_is_shown_and_can_be_ended(client: TestClient) -> None:
    begun = client.post("/v1/jobs/clicks/override", json=OVERRIDE).json()
    ended = client.delete("/v1/jobs/clicks/override").json()

    assert (begun["override"]["workers"], begun["override"]["reason"]) == (6, OVERRIDE["reason"])
    assert ended["override"] is None


async def test_an_override_outside_the_limits_or_of_a_job_that_recommends_is_refused(
    client: TestClient,
) -> None:
    assert client.post("/v1/jobs/clicks/override", json={**OVERRIDE, "workers": 99}).status_code == 409
    assert client.post("/v1/jobs/clicks/override", json={**OVERRIDE, "lasting_s": 1e9}).status_code == 422
    client.post("/v1/jobs/clicks/mode", json=MODE)
    assert client.post("/v1/jobs/clicks/override", json=OVERRIDE).status_code == 409


async def test_pausing_twice_keeps_the_first_and_its_reason(client: TestClient) -> None:
    first = client.post("/v1/jobs/clicks/pause", json=PAUSE)
    second = client.post("/v1/jobs/clicks/pause", json={"reason": "another"})
    resumed = client.post("/v1/jobs/clicks/resume")

    assert first.headers["etag"] == second.headers["etag"]
    assert second.json()["paused"]["reason"] == PAUSE["reason"]
    assert resumed.json()["paused"] is None


async def test_models_are_rolled_back_by_the_version_in_force_with_a_reason_and_a_trace(
    client: TestClient, rig: Rig
) -> None:
    rig.controller.tick()

    done = client.post("/v1/jobs/clicks/forecast/rollback", json=ROLLBACK)
    again = client.post("/v1/jobs/clicks/forecast/rollback", json={**ROLLBACK, "reason": "another"})

    assert done.json()["rollback"]["version"] == ROLLBACK["version"]
    assert again.json()["rollback"]["reason"] == ROLLBACK["reason"], "the first is kept"
    entry = client.get("/v1/audit").json()[0]
    assert (entry["action"], entry["reason"]) == ("job.rollback", ROLLBACK["reason"])
    (change,) = entry["changes"]
    assert (change["field"], change["after"]["version"]) == ("rollback", ROLLBACK["version"])


@pytest.mark.parametrize("in_force", ["2", "", None])
async def test_a_version_that_is_not_in_force_cannot_be_rolled_back(
    client: TestClient, rig: Rig, in_force: str | None
) -> None:
    rig.controller.training = None if in_force is None else trained(in_force)
    rig.controller.tick()

    refused = client.post("/v1/jobs/clicks/forecast/rollback", json=ROLLBACK)

    assert refused.status_code == 409
    assert "is not in force" in refused.json()["detail"]
    for bad in ({**ROLLBACK, "version": "../2"}, {**ROLLBACK, "reason": ""}):
        assert client.post("/v1/jobs/clicks/forecast/rollback", json=bad).status_code == 422
    assert rig.controller.jobs["clicks"].rollback is None


async def test_what_was_changed_is_there_after_a_restart(client: TestClient, rig: Rig) -> None:
    client.put("/v1/jobs/clicks/slo", json={"fresh_within_s": 30}, headers=ANY)
    client.post("/v1/jobs/clicks/pause")
    client.delete("/v1/jobs/views", headers=ANY)

    again = JobBook(rig.jobs, rig.controller.book._seeds, SystemClock())
    await again.open()

    assert set(again.live) == {"clicks"}, "a deleted job came back from the settings"
    assert again.live["clicks"].settings.slo.fresh_within_s == 30
    assert again.live["clicks"].pause is not None


async def test_what_if_tells_the_terms_in_force_and_those_asked_about(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    answer = client.post("/v1/jobs/clicks/what-if", json={"slo": {"fresh_within_s": 30}, "workers_max": 20})

    told = answer.json()
    assert told["asked"]["late_share"] == 0.01
    assert told["in_force"]["late_share"] == 0.005
    assert told["asked"]["auc_loss"] is None, "the job does not say what lateness costs"
    assert len(told["curve"]) == 3
    assert rig.what_if.asked[0].job.scaling.workers_max == 20
    assert client.get("/v1/jobs/clicks").json()["fresh_within_s"] == 60, "what-if changed something"
    assert client.post("/v1/jobs/clicks/what-if", json={"workers_min": 99}).status_code == 422


async def test_what_if_without_the_curve_asks_less(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()

    told = client.post("/v1/jobs/clicks/what-if", json={"slo": {"fresh_within_s": 30}, "curve": False}).json()

    assert told["asked"]["late_share"] == 0.01
    assert told["curve"] == []
    assert not any(question.turned for question in rig.what_if.asked)


async def test_what_if_tells_the_cost_of_a_range_of_promises(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()
    body = {"slo": {"fresh_within_s": 30}, "fresh_within_s": [15, 60, 240], "curve": False}

    told = client.post("/v1/jobs/clicks/what-if", json=body).json()

    assert [point["fresh_within_s"] for point in told["by_freshness"]] == [15, 60, 240]
    hours = [point["gpu_hours_per_day"] for point in told["by_freshness"]]
    assert hours == sorted(hours, reverse=True)
    for nothing in (0, 1e-200):  # no promise of a job may be that short, so none is tried
        refused = client.post("/v1/jobs/clicks/what-if", json={"fresh_within_s": [nothing]})
        assert refused.status_code == 422


async def test_what_if_is_given_up_when_the_caller_leaves(client: TestClient, rig: Rig) -> None:
    rig.controller.tick()
    given_up = asyncio.Event()

    async def never(question: Question) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        raise AssertionError(question)

    rig.what_if.ask = never  # type: ignore[method-assign]
    messages: Iterator[Message] = iter([{"type": "http.request", "body": b"{}"}, {"type": "http.disconnect"}])
    sent: list[Message] = []
    headers = [
        (b"content-type", b"application/json"),
        (b"authorization", client.headers["authorization"].encode()),
    ]
    scope = {"type": "http", "method": "POST", "path": "/v1/jobs/clicks/what-if", "headers": headers}

    async def receive() -> Message:
        return next(messages)

    async def send(message: Message) -> None:
        sent.append(message)

    await rig.app({**scope, "query_string": b"", "root_path": "", "client": ("::1", 1)}, receive, send)

    assert given_up.is_set()
    assert sent[0]["status"] == 503
