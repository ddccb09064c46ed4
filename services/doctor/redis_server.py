"""The Redis that holds leases and decisions: there, durable, never forgetting, and with our time."""

from __future__ import annotations

import time
from collections.abc import Iterator

from redis import Redis
from redis.exceptions import RedisError

from services.doctor.finding import Finding, Verdict
from services.settings.root import RedisSettings
from services.store.connect import connect_sync

_SKEW_WARNING_S = 1.0


def check_redis(settings: RedisSettings) -> Iterator[Finding]:
    """What a lease needs of its server. The URL may hold a password and is not shown."""
    client = connect_sync(settings)
    try:
        info = client.info()
    except RedisError as error:
        remedy = "start Redis, or correct redis.url (PENSTOCK_REDIS__URL)"
        yield Finding("Redis", Verdict.WRONG, f"does not answer: {error}", remedy)
        return
    finally:
        client.close()
    yield Finding("Redis", Verdict.OK, f"version {info['redis_version']}, {info['used_memory_human']} in use")
    yield _persistence(bool(info.get("aof_enabled")))
    yield _eviction(str(info.get("maxmemory_policy", "noeviction")))
    with connect_sync(settings) as client:
        yield _clock(client)


def _persistence(append_only: bool) -> Finding:
    if append_only:
        return Finding("Redis persistence", Verdict.OK, "append-only file")
    remedy = "set `appendonly yes`"
    return Finding("Redis persistence", Verdict.WARNING, "a restart forgets leases and decisions", remedy)


def _eviction(policy: str) -> Finding:
    if policy == "noeviction":
        return Finding("Redis eviction", Verdict.OK, policy)
    remedy = "set `maxmemory-policy noeviction`"
    return Finding("Redis eviction", Verdict.WRONG, f"{policy} may drop leases when memory is full", remedy)


def _clock(client: Redis) -> Finding:
    before_s = time.time()
    seconds, microseconds = client.time()
    between_s = (before_s + time.time()) / 2
    skew_s = abs(seconds + microseconds / 1e6 - between_s)
    if skew_s > _SKEW_WARNING_S:
        remedy = "synchronise the clocks of this machine and of Redis (NTP)"
        return Finding("clock", Verdict.WARNING, f"differs from Redis's by {skew_s:.1f} s", remedy)
    return Finding("clock", Verdict.OK, f"within {max(skew_s, 0.001) * 1000:.0f} ms of Redis's")
