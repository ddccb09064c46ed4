"""Which of several controllers leads: a lease in Redis, and a token that only ever grows."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from uuid import uuid4

import structlog
from redis.asyncio import Redis

from services.clock import elapsed_s
from services.control.errors import StateUnavailable
from services.store.connect import asking
from services.store.keys import Keys

log = structlog.get_logger(__name__)

TRIES_PER_TTL = 5
"""How often in a time-to-live the lease is renewed, or taken when it is free."""

MARGIN = 0.2
"""The share of the time-to-live by which we stop before Redis may give the lease to another: for what
is under way when it lapses, and for clocks that run at different speeds."""

# Lua's numbers are doubles: milliseconds since 1970 are exact in them, but must be formatted as integers.
_ACQUIRE = """
local lock, newest = KEYS[1], KEYS[2]
local owner, ttl_ms, seen = ARGV[1], ARGV[2], ARGV[3]

local holder = redis.call('GET', lock)
if holder and holder ~= owner then return false end

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local token = math.max(now_ms, (tonumber(redis.call('GET', newest)) or 0) + 1, seen + 1)
local written = string.format('%.0f', token)
redis.call('SET', newest, written)
redis.call('SET', lock, owner, 'PX', ttl_ms)
return written
"""

_RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""

_RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class AloneLeads:
    """A Leadership without rivals: for simulations and tests."""

    def __init__(self, token: int = 1) -> None:
        self._token = token

    def token(self) -> int:
        return self._token


@dataclass(frozen=True, slots=True)
class _Lease:
    token: int
    until_s: float
    """By our own clock; earlier than Redis lets it lapse."""


class RedisLeadership:
    """A Leadership among all controllers with the same Redis and prefix.

    Used as a context it campaigns in the background and releases the lease at the end, so that a
    successor need not wait for it to lapse. Stop the loops before leaving the context.

    The lease is counted from the moment its renewal was *sent*: a leader cut off from Redis stops
    by itself before another may start. Once lapsed it is never continued, but taken anew with a
    higher token. A token is at least the server's time in milliseconds, so that it keeps growing
    when Redis has lost what it knew.
    """

    def __init__(
        self,
        client: Redis,
        keys: Keys,
        *,
        ttl_s: float,
        owner: str | None = None,
        elapsed_s: Callable[[], float] = elapsed_s,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.owner = owner or f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        """Shown under the lock's key, so that people can see who leads."""
        self._client = client
        self._lock = keys.leader()
        self._newest = keys.leader_token()
        self._ttl_s = ttl_s
        self._elapsed_s = elapsed_s
        self._sleep = sleep
        self._acquire_script = client.register_script(_ACQUIRE)
        self._renew_script = client.register_script(_RENEW)
        self._release_script = client.register_script(_RELEASE)
        self._lease: _Lease | None = None
        self._seen = 0
        self.trouble = ""
        """Why the lock cannot be reached, in words; empty when it can."""
        self._campaign: asyncio.Task[None] | None = None

    def token(self) -> int | None:
        """Our fencing token while we lead; None when another does, or when we cannot be sure."""
        if self._lease is None or self._elapsed_s() >= self._lease.until_s:
            return None
        return self._lease.token

    async def run(self) -> None:
        """Take the lease when it is free, renew it while it is ours; for ever, through every outage."""
        while True:
            await self.attempt()
            await self._sleep(self._ttl_s / TRIES_PER_TTL)

    async def attempt(self) -> None:
        """Renew, or try to take the lease. An unreachable Redis is logged once, not raised."""
        try:
            if self.token() is None or not await self._renewed():
                await self._acquire()
        except StateUnavailable as error:
            if not self.trouble:
                log.warning("leader_lock_unreachable", owner=self.owner, why=str(error))
            self.trouble = str(error)
        else:
            self.trouble = ""

    async def release(self) -> None:
        """Give the lease back at once. With Redis unreachable it lapses by itself."""
        lease, self._lease = self._lease, None
        try:
            async with asking(self._client, f"release of {self._lock}"):
                await self._release_script(keys=[self._lock], args=[self.owner])
        except StateUnavailable as error:
            log.warning("leader_lock_left_to_lapse", owner=self.owner, why=str(error))
        else:
            if lease is not None:
                log.info("leadership_released", owner=self.owner, token=lease.token)

    async def _renewed(self) -> bool:
        """Whether the lease is ours for another time-to-live."""
        assert self._lease is not None  # noqa: S101 - only asked while a token is held
        sent_s = self._elapsed_s()
        async with asking(self._client, f"renewal of {self._lock}"):
            ours = await self._renew_script(keys=[self._lock], args=[self.owner, self._ttl_ms()])
        if ours:
            self._lease = _Lease(self._lease.token, self._until_s(sent_s))
        return bool(ours)

    async def _acquire(self) -> None:
        """Take the lease if nobody has it; if we have it already, with a new token all the same."""
        if self._lease is not None:
            log.warning("leadership_lost", owner=self.owner, token=self._lease.token)
            self._lease = None
        sent_s = self._elapsed_s()
        async with asking(self._client, f"acquisition of {self._lock}"):
            written = await self._acquire_script(
                keys=[self._lock, self._newest], args=[self.owner, self._ttl_ms(), self._seen]
            )
        if written is None:
            return
        self._seen = int(written)
        self._lease = _Lease(self._seen, self._until_s(sent_s))
        log.info("leadership_taken", owner=self.owner, token=self._seen)

    def _until_s(self, sent_s: float) -> float:
        return sent_s + self._ttl_s * (1 - MARGIN)

    def _ttl_ms(self) -> int:
        return max(1, round(self._ttl_s * 1000))

    async def __aenter__(self) -> Self:
        """Returns after the first attempt, so that a controller alone leads from its first tick."""
        await self.attempt()
        self._campaign = asyncio.create_task(self.run(), name="leadership")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        campaign, self._campaign = self._campaign, None
        try:
            if campaign is not None:
                campaign.cancel()
                await asyncio.wait([campaign])
                if not campaign.cancelled():
                    campaign.result()  # it ends only by an error that nobody foresaw: raise that
        finally:
            await self.release()
