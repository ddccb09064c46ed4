"""Wishes in Redis: what KEDA is told, by whichever replica it asks."""

from __future__ import annotations

from typing import cast

from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis

from services.actuator.admission import admit
from services.actuator.wish import Wish
from services.control.errors import Fenced
from services.control.types import PoolResize
from services.store.connect import asking
from services.store.errors import StateCorrupt
from services.store.keys import Keys

# Tokens are milliseconds since 1970: exact in Lua's doubles.
_PUBLISH = """
local known = redis.call('HGET', KEYS[1], 'fence')
if known and tonumber(known) > tonumber(ARGV[1]) then return known end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'wish', ARGV[2])
return false
"""

_WISH = TypeAdapter(Wish)


class RedisWishes:
    """`Wishes` that every controller sees."""

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._publish = client.register_script(_PUBLISH)

    async def publish(self, job: str, request: PoolResize) -> None:
        """Raises Fenced, Rejected and StateUnavailable."""
        pool, key = f"pool of job {job}", self._keys.wish(job)
        admit(request, pool=pool, newest=0)
        wish = _WISH.dump_json(Wish(request.workers, request.fence, request.decision_id))
        async with asking(self._client, f"publication of {key}"):
            newer = await self._publish(keys=[key], args=[request.fence, wish])
        if newer is not None:
            raise Fenced(pool, token=request.fence, newest=int(newer))

    async def latest(self, job: str) -> Wish | None:
        """Raises StateUnavailable and StateCorrupt."""
        key = self._keys.wish(job)
        async with asking(self._client, f"HGET {key}"):
            raw = cast(bytes | None, await self._client.hget(key, "wish"))
        if raw is None:
            return None
        try:
            return _WISH.validate_json(raw)
        except ValidationError as error:
            raise StateCorrupt(
                key,
                wrong="it is no wish of this version",
                remedy="delete it: the next decision writes it anew",
            ) from error
