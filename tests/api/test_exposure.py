"""Who can reach the API at all: where it may be bound, over TLS, and what its log gives away."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from services.access.role import Role
from services.api.exposure import Exposed, admin_token, check_exposure
from services.api.server import AddressUnavailable, ApiServer, address, bind
from services.cli.client import Client
from services.control.errors import StateUnavailable
from services.settings.root import ApiSettings
from services.store.tokens import MemoryTokens
from tests.api.sites import Rig
from tests.servers.certificates import make_certificate
from tests.waiting import eventually_async

BEYOND = ("0.0.0.0", "::", "192.0.2.1")  # noqa: S104 - these are to be refused


class TokensAway(MemoryTokens):
    """A store that does not answer."""

    async def exist(self) -> bool:
        raise StateUnavailable("Redis at nowhere: HLEN failed")


@pytest.mark.parametrize("host", BEYOND)
async def test_without_a_token_it_is_not_bound_where_others_reach_it(rig: Rig, host: str) -> None:
    with pytest.raises(Exposed, match="penstock token create"):
        await check_exposure(ApiSettings(host=host), rig.tokens, None)


@pytest.mark.parametrize("host", BEYOND)
async def test_with_a_token_of_the_store_or_of_a_file_it_may_be(rig: Rig, host: str) -> None:
    await check_exposure(ApiSettings(host=host), rig.tokens, "a token of a file")
    await rig.token(Role.VIEWER)
    await check_exposure(ApiSettings(host=host), rig.tokens, None)


async def test_on_this_machine_alone_it_is_open_and_the_log_says_so(rig: Rig) -> None:
    with capture_logs() as said:
        await check_exposure(ApiSettings(), rig.tokens, None)

    assert [entry["event"] for entry in said] == ["api_open_on_this_machine"]


async def test_a_store_that_is_away_opens_nothing_and_stops_nothing() -> None:
    rig = await Rig(settings=ApiSettings(host="192.0.2.1")).opened()
    await check_exposure(rig.settings, TokensAway(audit=rig.jobs.audit), None)

    assert rig.client().get("/v1/jobs").status_code == 401


def test_a_token_file_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(Exposed, match="cannot be read"):
        admin_token(ApiSettings(admin_token_file=file))
    file.write_text("short\n", encoding="utf-8")
    with pytest.raises(Exposed, match="5 characters") as told:
        admin_token(ApiSettings(admin_token_file=file))
    assert "short" not in str(told.value)
    file.write_text("x" * 40 + "\n", encoding="utf-8")
    assert admin_token(ApiSettings(admin_token_file=file)) == "x" * 40
    assert admin_token(ApiSettings()) is None


def test_a_certificate_that_cannot_be_used_is_told_before_anything_starts(tmp_path: Path) -> None:
    missing = ApiSettings(port=0, tls_certificate=tmp_path / "no.crt", tls_key=tmp_path / "no.key")
    with pytest.raises(AddressUnavailable, match=r"api.tls_certificate .*no.crt"):
        bind(missing)


@asynccontextmanager
async def serving(rig: Rig, settings: ApiSettings) -> AsyncIterator[str]:
    """As `penstock serve` does it."""
    listening = bind(settings)
    server = ApiServer(rig.app, settings)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    await eventually_async(lambda: server.started, what="the server")
    try:
        yield address(listening, tls=settings.tls_certificate is not None)
    finally:
        server.should_exit = True
        await running


async def test_over_tls_the_page_api_and_command_line_are_reached(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_certificate(tmp_path)
    settings = ApiSettings(port=0, tls_certificate=made, tls_key=made.with_suffix(".key"))
    token = await rig.token(Role.VIEWER)
    monkeypatch.setenv("PENSTOCK_TOKEN", token)
    async with serving(rig, settings) as url:
        assert url.startswith("https://")
        listed = await asyncio.to_thread(Client(url, ca_file=str(made)).get, "/v1/jobs")
        async with httpx2.AsyncClient() as stranger:
            with pytest.raises(httpx2.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await stranger.get(f"{url}/v1/jobs")

    assert [job["id"] for job in listed.document] == ["clicks", "views"]


async def test_no_token_stands_in_a_log_or_an_error(rig: Rig) -> None:
    """Good, wrong, malformed, in the address: whatever is logged, at the most talkative level, has none."""
    good = await rig.token(Role.VIEWER)
    wrong = good[:-4] + "AAAA"
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(lambda record: not record.name.startswith("http"))  # the test's own client
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    answers: list[Any] = []
    try:
        with capture_logs() as said:
            async with serving(rig, ApiSettings(port=0)) as url, httpx2.AsyncClient(base_url=url) as client:
                for header in (f"Bearer {good}", f"Bearer {wrong}", f"Basic {good}", good):
                    headers = {"Authorization": header}
                    answers += [await client.get("/v1/jobs", headers=headers)]
                    answers += [await client.post("/v1/jobs", headers=headers, content=good)]
                    answers += [await client.put(f"/v1/jobs/{good}", headers=headers)]
                answers += [await client.get("/v1/me", params={"token": good})]
    finally:
        root.removeHandler(handler)
        root.setLevel(level)

    secret = good[-43:-4]  # all of it but what `wrong` differs by; it may have underscores of its own
    told = "".join(answer.text for answer in answers if answer.request.url.path == "/v1/jobs")
    assert {answer.status_code for answer in answers} >= {200, 401, 403}
    assert secret not in told
    assert secret not in str(said)
    assert secret not in written.getvalue()
