"""Clients of Redis that give up in time, and one way to say what failed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelConnectionPool
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from services.control.errors import StateUnavailable
from services.settings.root import RedisSettings
from services.store import sentinel
from services.store.errors import InvalidRedisUrl

_HEALTH_CHECK_S = 15
"""A connection idle for longer is tried with a PING first: firewalls drop idle ones silently."""

# A connection that Redis closed while it lay in the pool is found out by the next command: try that
# once more, on a new one. A timeout is not tried again: the caller's patience is already used up.
_TRIES_AGAIN = 1
_WORTH_A_TRY = (ConnectionLost,)


def connect(settings: RedisSettings) -> redis.asyncio.Redis:
    """A client for the event loop. Opens no connection yet; its owner closes it with `aclose()`.

    Raises InvalidRedisUrl.
    """
    retry = AsyncRetry(NoBackoff(), _TRIES_AGAIN, supported_errors=_WORTH_A_TRY)
    try:
        if settings.url.startswith(sentinel.SCHEMES):
            return sentinel.primary(
                sentinel.SentinelUrl.parsed(settings.url), {"retry": retry, **_options(settings)}
            )
        return redis.asyncio.from_url(settings.url, retry=retry, **_options(settings))
    except ValueError:
        raise InvalidRedisUrl from None  # the cause may quote a part of the password


def connect_sync(settings: RedisSettings) -> redis.Redis:
    """The same for threads: a worker's client. Its owner closes it with `close()`."""
    retry = Retry(NoBackoff(), _TRIES_AGAIN, supported_errors=_WORTH_A_TRY)
    try:
        if settings.url.startswith(sentinel.SCHEMES):
            return sentinel.primary_sync(
                sentinel.SentinelUrl.parsed(settings.url), {"retry": retry, **_options(settings)}
            )
        return redis.from_url(settings.url, retry=retry, **_options(settings))
    except ValueError:
        raise InvalidRedisUrl from None


def address_of(client: redis.asyncio.Redis | redis.Redis) -> str:
    """Where the client connects to, without user and password.

    >>> address_of(connect_sync(RedisSettings(url="redis://:secret@10.0.0.7:6380/2")))
    '10.0.0.7:6380'
    """
    pool = client.connection_pool
    if isinstance(pool, SentinelConnectionPool | AsyncSentinelConnectionPool):
        return f"{pool.service_name} of the sentinels"
    where = pool.connection_kwargs
    if "path" in where:
        return str(where["path"])
    return f"{where.get('host', 'localhost')}:{where.get('port', 6379)}"


@asynccontextmanager
async def asking(client: redis.asyncio.Redis, command: str) -> AsyncIterator[None]:
    """Wait for `command` no longer than the client's timeout, connecting included.

    Raises StateUnavailable, naming the command and the server, for whatever Redis or the network
    may do. After a timeout nobody knows whether the command was carried out. Whoever is cancelled
    meanwhile is cancelled: the client's own `wait_for` may forget that before Python 3.12.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        with translating(client, command):
            async with asyncio.timeout(client.connection_pool.connection_kwargs.get("socket_timeout")):
                yield
    finally:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError


@contextmanager
def translating(client: redis.asyncio.Redis | redis.Redis, command: str) -> Iterator[None]:
    """Turn every error of Redis or of the network into StateUnavailable."""
    try:
        yield
    except (RedisError, OSError) as error:  # a TimeoutError is an OSError
        cause = str(error) or type(error).__name__
        raise StateUnavailable(f"Redis at {address_of(client)}: {command} failed: {cause}") from error


def _options(settings: RedisSettings) -> dict[str, Any]:
    return {
        "socket_timeout": settings.timeout_s,
        "socket_connect_timeout": settings.timeout_s,
        "health_check_interval": _HEALTH_CHECK_S,
        "decode_responses": False,
        # Replies then look the same on every server and version that we may meet.
        "protocol": 2,
    }
