"""Redis over TLS: a server whose certificate is trusted is used, and no other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from services.control.errors import StateUnavailable
from services.settings.root import RedisSettings
from services.store.connect import connect
from services.store.keys import Keys
from services.store.redis_state import RedisState
from tests.servers.certificates import make_certificate
from tests.store.worlds import a_decision


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return make_certificate(tmp_path)


@pytest.fixture
async def tls_port(certificate: Path, redis_url: str) -> AsyncIterator[int]:
    """Speaks TLS to clients and plainly to the server behind it, as a Redis with `tls-port` would."""
    behind = urlsplit(redis_url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))

    async def carry(source: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ssl.SSLError):
            while some := await source.read(65536):
                out.write(some)
                await out.drain()
        out.close()

    async def served(asked: asyncio.StreamReader, told: asyncio.StreamWriter) -> None:
        answers, questions = await asyncio.open_connection(behind.hostname, behind.port)
        await asyncio.gather(carry(asked, questions), carry(answers, told))

    server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_state_is_kept_on_a_server_whose_authority_is_named(
    tls_port: int, certificate: Path, redis_url: str
) -> None:
    database = urlsplit(redis_url).path
    url = f"rediss://127.0.0.1:{tls_port}{database}?ssl_ca_certs={certificate}"
    async with connect(RedisSettings(url=url)) as client:
        store = RedisState(client, Keys("penstock-tls"))
        await store.commit(a_decision(1), fence=1)

        assert (await store.load("clicks")).sequence == 1


async def test_a_certificate_that_nobody_vouches_for_is_refused(tls_port: int) -> None:
    async with connect(RedisSettings(url=f"rediss://127.0.0.1:{tls_port}/0")) as client:
        with pytest.raises(StateUnavailable, match="certificate verify failed"):
            await RedisState(client, Keys("penstock-tls")).load("clicks")
