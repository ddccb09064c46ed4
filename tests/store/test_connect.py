"""A client gives up in time, and says where it failed without telling the password."""

import asyncio
import socket
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from services.control.errors import StateUnavailable
from services.embedded.redis import EmbeddedRedis
from services.settings.root import RedisSettings
from services.store.connect import address_of, asking, connect, connect_sync, translating
from services.store.errors import InvalidRedisUrl
from services.store.keys import Keys
from services.store.redis_state import RedisState
from tests.store.faults import kill


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


async def test_a_server_that_never_answers_is_given_up(silent_port: int) -> None:
    url = f"redis://127.0.0.1:{silent_port}/0"
    async with asyncio.timeout(10.0), connect(RedisSettings(url=url, timeout_s=0.1)) as client:
        with pytest.raises(StateUnavailable, match=f"127.0.0.1:{silent_port}: GET"):
            await RedisState(client, Keys("penstock")).load("clicks")


@asynccontextmanager
async def dawdling_port(each_s: float) -> AsyncIterator[int]:
    """A server that takes `each_s` for every command, however small."""
    serving: set[asyncio.Task[None] | None] = set()

    async def dawdle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        with suppress(ConnectionError):  # the client hung up, as it should
            while asked := await reader.read(4096):
                for command in asked.split(b"*")[1:]:
                    await asyncio.sleep(each_s)  # the fault itself: nothing is waited for
                    writer.write(b"+PONG\r\n" if b"PING" in command else b"+OK\r\n")
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(dawdle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*(task for task in serving if task is not None))


async def test_a_server_that_answers_each_step_just_in_time_is_given_up_all_the_same() -> None:
    """Connecting takes several steps: together they may take no longer than one command."""
    patience_s = 0.3
    async with dawdling_port(patience_s * 0.6) as port:
        url = f"redis://127.0.0.1:{port}/1"
        async with connect(RedisSettings(url=url, timeout_s=patience_s)) as client:
            with pytest.raises(StateUnavailable):
                await RedisState(client, Keys("penstock")).load("clicks")


async def test_errors_name_command_and_server_but_never_the_password(own_server: EmbeddedRedis) -> None:
    url = own_server.url.replace("redis://", "redis://somebody:hunter2@")
    async with connect(RedisSettings(url=url)) as client:
        with pytest.raises(StateUnavailable) as failed:
            await RedisState(client, Keys("penstock")).load("clicks")

    assert "GET penstock:v1:{clicks}:state" in str(failed.value)
    assert f"Redis at 127.0.0.1:{own_server.port}" in str(failed.value)
    assert "hunter2" not in "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize("url", ["redis://:hun/ter2@host:6379/0", "redis://:hunter2@host:port/0"])
def test_a_url_that_cannot_be_parsed_is_not_repeated(url: str) -> None:
    for make in (connect, connect_sync):
        with pytest.raises(InvalidRedisUrl, match="percent-encoded") as failed:
            make(RedisSettings.model_construct(url=url))  # settings refuse it before
        told = "".join(traceback.format_exception(failed.value))
        assert "hun" not in told.replace(url, "")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://example.org", "example.org:6379"),
        ("rediss://user:secret@example.org:6380/3", "example.org:6380"),
        ("unix:///run/redis.sock?db=2", "/run/redis.sock"),
    ],
)
def test_an_address_is_told_without_credentials(url: str, address: str) -> None:
    assert address_of(connect_sync(RedisSettings(url=url))) == address


def test_a_worker_s_client_finds_a_restarted_server_again(own_server: EmbeddedRedis) -> None:
    with connect_sync(RedisSettings(url=own_server.url)) as client:
        client.set("a", "1")
        kill(own_server)
        with pytest.raises(StateUnavailable), translating(client, "GET a"):
            client.get("a")

        own_server.restart()

        assert client.ping()


async def test_a_cancellation_that_the_client_forgets_is_not_lost() -> None:
    client = connect(RedisSettings())  # nothing is sent

    async def ask_for_ever() -> None:
        while True:
            async with asking(client, "PING"):
                with suppress(asyncio.CancelledError):  # as the client may, in the wrong moment
                    await asyncio.Event().wait()

    asks = asyncio.create_task(ask_for_ever())
    await asyncio.sleep(0)
    asks.cancel()
    await asyncio.wait([asks], timeout=5)

    assert asks.cancelled()
    await client.aclose()
