"""Redis behind Sentinel: the URL, and pools that ask the sentinels who is primary.

    redis+sentinel://[user:password@]sentinel[:26379][,sentinel ...]/SERVICE[/DB][?sentinel_password=...]

`rediss+sentinel://` speaks TLS to sentinels and servers. User and password are those of the servers; the
sentinels' own, where they have one, are `sentinel_username` and `sentinel_password`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

SCHEMES: Final = ("redis+sentinel://", "rediss+sentinel://")
_PORT: Final = 26379
_ASKED: Final = ("sentinel_username", "sentinel_password")


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """Who to ask for the primary of which service. Passwords stay out of its text."""

    sentinels: tuple[tuple[str, int], ...]
    service: str
    db: int
    tls: bool
    server: dict[str, str] = field(repr=False)
    """`username` and `password` of the servers."""
    sentinel: dict[str, str] = field(repr=False)
    """Those of the sentinels."""

    @classmethod
    def parsed(cls, url: str) -> SentinelUrl:
        """Raises ValueError, without repeating the URL.

        >>> SentinelUrl.parsed("redis+sentinel://:secret@a:1,b/penstock/2")
        SentinelUrl(sentinels=(('a', 1), ('b', 26379)), service='penstock', db=2, tls=False)
        """
        parts = urlsplit(url)
        login, _, hosts = parts.netloc.rpartition("@")
        user, _, password = login.partition(":")
        service, _, db = parts.path.strip("/").partition("/")
        found = [urlsplit(f"//{host}") for host in hosts.split(",")]
        asked = parse_qs(parts.query, strict_parsing=bool(parts.query))
        if not service or not all(one.hostname for one in found) or set(asked) - set(_ASKED):
            raise ValueError(
                "a Sentinel URL is redis+sentinel://[user:password@]host:port[,host:port]/SERVICE/DB"
            )
        given = {"username": unquote(user), "password": unquote(password)}
        return cls(
            tuple((str(one.hostname), one.port or _PORT) for one in found),
            unquote(service),
            int(db or 0),
            parts.scheme == "rediss+sentinel",
            {name: value for name, value in given.items() if value},
            {name.removeprefix("sentinel_"): values[-1] for name, values in asked.items()},
        )

    def asking(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options of the connections to the sentinels: as patient as those to the servers."""
        return {**options, "ssl": self.tls, **self.sentinel}

    def serving(self, options: dict[str, Any]) -> dict[str, Any]:
        """Options of those to the servers."""
        return {**options, "ssl": self.tls, "db": self.db, **self.server}


class _Pool(redis.sentinel.SentinelConnectionPool):
    """Closed with its sentinels' connections."""

    def disconnect(self, inuse_connections: bool = True) -> None:
        super().disconnect(inuse_connections)
        if inuse_connections:  # else it only forgets a former primary
            for sentinel in self.sentinel_manager.sentinels:
                sentinel.close()


class _AsyncPool(redis.asyncio.sentinel.SentinelConnectionPool):
    """Likewise."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        if inuse_connections:
            for sentinel in self.sentinel_manager.sentinels:
                await sentinel.aclose()


def primary(url: SentinelUrl, options: dict[str, Any]) -> redis.asyncio.Redis:
    """A client of whoever is primary now, for the event loop. Opens no connection yet."""
    asked = redis.asyncio.sentinel.Sentinel(  # type: ignore[no-untyped-call]
        url.sentinels, sentinel_kwargs=url.asking(options)
    )
    client: redis.asyncio.Redis = asked.master_for(
        url.service, connection_pool_class=_AsyncPool, **url.serving(options)
    )
    return client


def primary_sync(url: SentinelUrl, options: dict[str, Any]) -> redis.Redis:
    """The same for threads."""
    asked = redis.sentinel.Sentinel(  # type: ignore[no-untyped-call]
        url.sentinels, sentinel_kwargs=url.asking(options)
    )
    client: redis.Redis = asked.master_for(  # type: ignore[no-untyped-call]
        url.service, connection_pool_class=_Pool, **url.serving(options)
    )
    return client
