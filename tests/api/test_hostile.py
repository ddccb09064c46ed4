"""Bodies that nobody sane would send: each is answered, nothing breaks, nothing is lost."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import ASGITransport, AsyncClient

from services.api.examples import JOB
from services.settings.root import ApiSettings
from tests.api.sites import Rig

PLACES = [
    ("POST", "/v1/jobs"),
    ("PUT", "/v1/jobs/clicks"),
    ("PATCH", "/v1/jobs/clicks"),
    ("PUT", "/v1/jobs/clicks/slo"),
    ("POST", "/v1/jobs/clicks/override"),
    ("POST", "/v1/jobs/clicks/pause"),
    ("POST", "/v1/jobs/clicks/mode"),
    ("POST", "/v1/jobs/clicks/what-if"),
    ("POST", "/v1/fleet/admission"),
    ("POST", "/v1/fleet/what-if"),
]
FIELDS = [
    "id",
    "topic",
    "group",
    "slo",
    "scaling",
    "fresh_within_s",
    "late_share_target",
    "workers",
    "workers_max",
]
FIELDS += [
    "lasting_s",
    "reason",
    "mode",
    "pool",
    "command",
    "rule",
    "rule_options",
    "shuffle",
    "\ud800",
    "",
    "__proto__",
    "rates",
    "hourly_per_s",
    "guaranteed",
    "nodes",
]
LEAVES: list[Any] = [
    None, True, False, 0, -1, 1, 2**63, -(2**63), 10**400, 1e308, -1e308, 5e-324, float("nan"), float("inf"),
    "", "clicks", "\x00", "\ud800", "\u202e", "a" * 3000, "🔥" * 50, "'; DROP TABLE", "${jndi:x}", "../..",
    "act", "penstock", [], {}, [[]],
]  # fmt: skip


def nonsense(rng: random.Random, depth: int = 0) -> Any:
    if depth > 5 or rng.random() < 0.35:
        return rng.choice(LEAVES)
    if rng.random() < 0.25:
        return [nonsense(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(FIELDS): nonsense(rng, depth + 1) for _ in range(rng.randrange(6))}


def body(rng: random.Random) -> bytes:
    special: list[Callable[[], bytes]] = [
        lambda: rng.randbytes(rng.randrange(400)),
        lambda: b"[" * rng.randrange(1, 60_000),
        lambda: b'{"slo":' * rng.randrange(1, 20_000) + b"1" + b"}" * 20_000,
        lambda: json.dumps({**JOB, rng.choice(FIELDS): rng.choice(LEAVES)}).encode(),
        lambda: b'{"reason": "\xff\xfe", "workers": 1e999999}',
        lambda: b"9" * rng.randrange(1, 6000),
    ]
    return rng.choice(special)() if rng.random() < 0.5 else json.dumps(nonsense(rng)).encode()


@pytest.mark.parametrize("seed", range(5))
async def test_ten_thousand_hostile_bodies_break_and_lose_nothing(rig: Rig, seed: int) -> None:
    rig.controller.tick()
    # Without the thread and the event loop that a TestClient starts for every request.
    client = AsyncClient(
        transport=ASGITransport(app=rig.app),
        base_url="http://localhost",
        headers={"Authorization": f"Bearer {await rig.token()}"},
    )
    rng = random.Random(seed)
    seen: dict[int, int] = {}
    for number in range(2000):  # of each seed
        method, path = rng.choice(PLACES)
        media = rng.choice(["application/json", "application/merge-patch+json", "text/plain", "x/y+json"])
        sent = body(rng)
        headers = {"Content-Type": media, "If-Match": "*"}
        answer = await client.request(method, path, content=sent, headers=headers)
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1

        assert answer.status_code < 500, (number, method, path, sent[:200], answer.text)
        json.loads(answer.content.decode("utf-8"))
    records = await rig.jobs.every()

    assert {"clicks", "views"} <= set(records)
    assert (await client.get("/v1/jobs/clicks")).status_code == 200
    assert (await client.get("/v1/audit?limit=1000")).status_code == 200
    assert seen[422] > 1000
    assert seen.get(200, 0) > 0, "nothing was right: the bodies do not reach the routes"


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(client: TestClient) -> None:
    answer = client.post("/v1/jobs", content=b" " * 300_000)

    assert answer.status_code == 413
    assert "262144 bytes" in answer.json()["detail"]


async def test_a_body_without_a_length_is_cut_off_at_the_limit() -> None:
    rig = await Rig(settings=ApiSettings(body_bytes_max=1000)).opened()

    def endless() -> Any:
        for _ in range(100):
            yield b" " * 100

    assert rig.client().post("/v1/jobs", content=endless()).status_code == 413


@pytest.mark.parametrize("length", ["-1", "abc", "1e9", "99999999999999999999"])
async def test_a_length_that_lies_is_refused(client: TestClient, length: str) -> None:
    answer = client.post("/v1/jobs", content=b"{}", headers={"Content-Length": length})

    assert answer.status_code == 413


@pytest.mark.parametrize(
    "path", ["/v1/jobs/..%2f..", "/v1/jobs/%00", "/v1/jobs/" + "a" * 3000, "/v1/jobs/CLICKS"]
)
async def test_names_that_are_none_are_refused(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in {404, 422}


async def test_nothing_is_said_to_other_origins_unless_they_are_named(client: TestClient) -> None:
    preflight = client.options(
        "/v1/jobs", headers={"Origin": "https://ops.example.com", "Access-Control-Request-Method": "GET"}
    )
    plain = client.get("/v1/jobs", headers={"Origin": "https://ops.example.com"})

    assert "access-control-allow-origin" not in {**preflight.headers, **plain.headers}
    named = await Rig(settings=ApiSettings(cors_origins=["https://ops.example.com"])).opened()
    told = named.client(await named.token()).get("/v1/jobs", headers={"Origin": "https://ops.example.com"})
    assert told.headers["access-control-allow-origin"] == "https://ops.example.com"


async def test_every_answer_forbids_sniffing_framing_and_foreign_scripts(client: TestClient) -> None:
    for path in ("/", "/v1/jobs", "/web/app.js", "/nowhere"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
