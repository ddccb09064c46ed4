"""Clients of the suite's Redis, and a Redis of its own for tests that take it away."""

from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from services.embedded.redis import EmbeddedRedis
from services.settings.root import RedisSettings
from services.store.connect import connect
from services.store.keys import Keys


@pytest.fixture
def keys() -> Keys:
    return Keys("penstock")


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Redis]:
    async with connect(RedisSettings(url=redis_url)) as client:
        yield client


@pytest.fixture
def own_server() -> Iterator[EmbeddedRedis]:
    """A Redis that only this test uses, and may kill."""
    with EmbeddedRedis() as server:
        yield server


@pytest.fixture
async def own_client(own_server: EmbeddedRedis) -> AsyncIterator[Redis]:
    async with connect(RedisSettings(url=own_server.url)) as client:
        yield client
