"""Who may do what: every route with every role, and every way to come without one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from services.access.role import Role
from services.api.examples import ADMISSION, FEWER_NODES, JOB, MODE, OVERRIDE, PAUSE, ROLLBACK, WHAT_IF
from services.control.errors import StateUnavailable
from services.settings.root import ApiSettings
from tests.api.sites import Rig

FILE_TOKEN = "-".join(["a", "long", "random", "secret", "of", "a", "file"])

ROUTES: dict[tuple[str, str], tuple[Role, Any]] = {
    ("GET", "/v1/fleet"): (Role.VIEWER, None),
    ("GET", "/v1/fleet/ahead"): (Role.VIEWER, None),
    ("POST", "/v1/fleet/admission"): (Role.OPERATOR, ADMISSION),
    ("POST", "/v1/fleet/what-if"): (Role.VIEWER, FEWER_NODES),
    ("GET", "/v1/me"): (Role.VIEWER, None),
    ("GET", "/v1/reasons"): (Role.VIEWER, None),
    ("GET", "/v1/audit"): (Role.ADMIN, None),
    ("GET", "/v1/jobs"): (Role.VIEWER, None),
    ("POST", "/v1/jobs"): (Role.ADMIN, {"id": "new", **JOB}),
    ("GET", "/v1/jobs/{job_id}"): (Role.VIEWER, None),
    ("PUT", "/v1/jobs/{job_id}"): (Role.ADMIN, {**JOB, "topic": "clicks-raw"}),
    ("PATCH", "/v1/jobs/{job_id}"): (Role.ADMIN, {"scaling": {"workers_max": 12}}),
    ("DELETE", "/v1/jobs/{job_id}"): (Role.ADMIN, None),
    ("PUT", "/v1/jobs/{job_id}/slo"): (Role.OPERATOR, {"fresh_within_s": 30}),
    ("GET", "/v1/jobs/{job_id}/plan"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/actuations"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/safety"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/decisions"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/series"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/snapshot"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/traffic"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/forecast"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/throughput"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/assignment"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/workers"): (Role.VIEWER, None),
    ("GET", "/v1/jobs/{job_id}/quality"): (Role.VIEWER, None),
    ("POST", "/v1/jobs/{job_id}/what-if"): (Role.VIEWER, WHAT_IF),
    ("POST", "/v1/jobs/{job_id}/override"): (Role.OPERATOR, OVERRIDE),
    ("DELETE", "/v1/jobs/{job_id}/override"): (Role.OPERATOR, None),
    ("POST", "/v1/jobs/{job_id}/pause"): (Role.OPERATOR, PAUSE),
    ("POST", "/v1/jobs/{job_id}/resume"): (Role.OPERATOR, None),
    ("POST", "/v1/jobs/{job_id}/mode"): (Role.OPERATOR, MODE),
    ("POST", "/v1/jobs/{job_id}/forecast/rollback"): (Role.OPERATOR, ROLLBACK),
}
"""Every route of the document but the endless one, who may use it, and a body that is right."""


def ask(client: TestClient, route: tuple[str, str], body: Any, *, job: str = "clicks") -> Any:
    method, path = route
    return client.request(method, path.replace("{job_id}", job), json=body, headers={"If-Match": "*"})


async def test_the_matrix_has_every_route_of_the_document(rig: Rig) -> None:
    document = rig.app.openapi()

    found = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}

    assert found == set(ROUTES) | {("GET", "/v1/events")}


@pytest.mark.parametrize("role", list(Role))
async def test_every_route_opens_for_its_roles_and_no_other(role: Role) -> None:
    for route, (needed, body) in ROUTES.items():
        rig = await Rig().opened()
        rig.controller.tick()
        client = rig.client(await rig.token(role))

        answer = ask(client, route, body)

        if role.allows(needed):
            assert answer.status_code in {200, 201}, (route, role, answer.text)
        else:
            assert answer.status_code == 403, (route, role, answer.text)
            assert answer.json()["type"] == "urn:penstock:problem:forbidden"
            assert await rig.jobs.version() == 2, (route, "something was changed")


async def test_without_a_token_nothing_opens_once_there_is_one(rig: Rig) -> None:
    await rig.token(Role.VIEWER)
    for route, (_, body) in [*ROUTES.items(), (("GET", "/v1/events"), (Role.VIEWER, None))]:
        answer = ask(rig.client(), route, body)

        assert answer.status_code == 401, route
        assert "Bearer" in answer.headers["www-authenticate"]


@pytest.mark.parametrize("role", list(Role))
async def test_a_token_for_one_job_does_not_see_another(role: Role) -> None:
    for route, (_, body) in ROUTES.items():
        if "{job_id}" not in route[1]:
            continue
        rig = await Rig().opened()
        rig.controller.tick()
        client = rig.client(await rig.token(role, jobs=("views",)))

        answer = ask(client, route, body)

        assert answer.status_code in {403, 404}, (route, answer.text)
        assert "clicks" not in answer.json()["detail"].replace("'clicks'", ""), "its neighbours were told"
        assert await rig.jobs.version() == 2


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
async def test_a_token_for_some_jobs_does_not_roll_back_the_models_that_others_share(role: Role) -> None:
    rig = await Rig().opened()
    rig.controller.tick()
    client = rig.client(await rig.token(role, jobs=("clicks",)))

    answer = ask(client, ("POST", "/v1/jobs/{job_id}/forecast/rollback"), ROLLBACK)

    assert answer.status_code == 403
    assert "all jobs" in answer.json()["detail"]
    assert await rig.jobs.version() == 2, "something was changed"


async def test_lists_show_only_the_jobs_of_the_token(rig: Rig) -> None:
    client = rig.client(await rig.token(jobs=("views",)))

    assert [job["id"] for job in client.get("/v1/jobs").json()] == ["views"]
    assert [job["id"] for job in client.get("/v1/fleet").json()["jobs"]] == ["views"]
    assert {entry["job"] for entry in client.get("/v1/audit").json()} == {"views"}
    assert client.post("/v1/jobs", json={"id": "other", **JOB}).status_code == 403


async def test_on_this_machine_and_without_any_token_everything_is_open(rig: Rig) -> None:
    assert rig.client().get("/v1/me").json()["role"] == "admin"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "127.0.0.1.evil.example:8080"},
    ],
)
async def test_a_browser_that_was_led_here_by_another_site_is_not_let_in(
    rig: Rig, headers: dict[str, str]
) -> None:
    assert rig.client().get("/v1/jobs", headers=headers).status_code == 401


async def test_an_address_that_others_reach_is_never_open() -> None:
    rig = await Rig(settings=ApiSettings(host="192.0.2.1")).opened()

    assert rig.client().get("/v1/jobs").status_code == 401


async def test_an_expired_and_a_revoked_token_open_nothing(rig: Rig) -> None:
    expired = await rig.token(lifetime_s=-1.0)
    revoked = await rig.token()
    token = next(t for t in await rig.tokens.every() if t.expires_at_s is None)

    assert rig.client(revoked).get("/v1/me").status_code == 200
    await rig.tokens.revoke(token.id, audit=b"{}")

    assert rig.client(expired).get("/v1/me").status_code == 401
    assert rig.client(revoked).get("/v1/me").status_code == 401


@pytest.mark.parametrize(
    "given",
    ["Bearer", "Bearer ", "Basic abc", "bearer pst_x", "Bearer pst_" + "0" * 12 + "_" + "A" * 43, "\x00"],
)
async def test_what_is_no_token_opens_nothing_and_is_not_repeated(rig: Rig, given: str) -> None:
    await rig.token()

    answer = rig.client().get("/v1/me", headers={"Authorization": given})

    assert answer.status_code == 401
    assert "AAAA" not in answer.text


async def test_a_token_in_the_address_opens_nothing(rig: Rig) -> None:
    text = await rig.token()

    assert rig.client().get(f"/v1/me?token={text}&access_token={text}").status_code == 401


async def test_the_token_of_the_file_works_without_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = await Rig(admin_token=FILE_TOKEN).opened()

    async def away(_: str) -> None:
        raise StateUnavailable("no answer")

    monkeypatch.setattr(type(rig.tokens), "find", lambda _self, token_id: away(token_id))

    assert rig.client(FILE_TOKEN).get("/v1/me").json()["role"] == "admin"
    assert rig.client(FILE_TOKEN[:-1]).get("/v1/me").status_code == 401
    assert rig.client().get("/v1/me").status_code == 401


async def test_while_the_store_is_away_a_known_token_may_look_and_not_change(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = rig.client(await rig.token())
    assert client.get("/v1/me").status_code == 200

    async def away(_self: object, _id: str) -> None:
        raise StateUnavailable("no answer")

    monkeypatch.setattr(type(rig.tokens), "find", away)

    assert client.get("/v1/me").status_code == 200
    assert client.post("/v1/jobs/clicks/pause").status_code == 503
    stranger = rig.client("pst_" + "0" * 12 + "_" + "A" * 43)
    assert stranger.get("/v1/me").status_code == 503


async def test_a_token_that_asks_too_often_has_to_wait_and_others_do_not() -> None:
    rig = await Rig(settings=ApiSettings(requests_per_s=0.01, requests_burst=3)).opened()
    ann, bob = rig.client(await rig.token()), rig.client(await rig.token())

    assert [ann.get("/v1/me").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert int(ann.get("/v1/me").headers["retry-after"]) >= 1
    assert bob.get("/v1/me").status_code == 200


async def test_whoever_tries_many_tokens_has_to_wait(rig: Rig) -> None:
    guess = "pst_" + "0" * 12 + "_" + "A" * 43
    statuses = [rig.client(guess).get("/v1/me").status_code for _ in range(40)]

    assert statuses[0] == 401
    assert statuses[-1] == 429


async def test_every_change_is_in_the_audit_log_with_who_from_what_to_what(rig: Rig) -> None:
    rig.controller.tick()
    operator, admin = rig.client(await rig.token(Role.OPERATOR)), rig.client(await rig.token())

    operator.put("/v1/jobs/clicks/slo", json={"fresh_within_s": 30}, headers={"If-Match": "*"})
    entry = admin.get("/v1/audit?job=clicks&limit=1").json()[0]

    assert entry["action"] == "job.slo"
    assert re.fullmatch(r"operator-test \([0-9a-f]{12}\)", entry["who"])
    assert entry["changes"] == [{"field": "slo.fresh_within_s", "before": 60.0, "after": 30.0}]


async def test_the_audit_log_is_read_in_pages(rig: Rig) -> None:
    client = rig.client(await rig.token())
    for _ in range(3):
        client.post("/v1/jobs/clicks/pause")
        client.post("/v1/jobs/clicks/resume")

    first = client.get("/v1/audit?limit=4")
    second = client.get(first.links["next"]["url"])

    ids = [entry["id"] for entry in (*first.json(), *second.json())]
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids, key=lambda i: [int(part) for part in i.split("-")], reverse=True)
