"""What the leader knows of each job, left in Redis for the API of the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, cast

from redis.asyncio import Redis

from services.store.connect import asking
from services.store.keys import Keys

SNAPSHOT_TTL_S = 60.0
"""A snapshot older than this says more about the past than about the job."""


class SnapshotStore(Protocol):
    """The latest document of each job."""

    async def put(self, job: str, document: bytes) -> None:
        """Replace it. Raises StateUnavailable."""
        ...

    async def get(self, job: str) -> bytes | None:
        """None when there is none, or it is too old. Raises StateUnavailable."""
        ...


class RedisSnapshots:
    """A SnapshotStore that all controllers with the same Redis and prefix share."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    async def put(self, job: str, document: bytes) -> None:
        key = self._keys.snapshot(job)
        async with asking(self._client, f"SET {key}"):
            await self._client.set(key, document, px=round(SNAPSHOT_TTL_S * 1000))

    async def get(self, job: str) -> bytes | None:
        key = self._keys.snapshot(job)
        async with asking(self._client, f"GET {key}"):
            return cast(bytes | None, await self._client.get(key))


@dataclass(slots=True)
class MemorySnapshots:
    """A SnapshotStore within one process; its documents do not grow old."""

    _documents: dict[str, bytes] = field(default_factory=dict)

    async def put(self, job: str, document: bytes) -> None:
        self._documents[job] = document

    async def get(self, job: str) -> bytes | None:
        return self._documents.get(job)
