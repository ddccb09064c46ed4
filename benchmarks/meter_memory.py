"""How much of Redis the past of a thousand topics takes, beside a sorted set of the same rates."""

from __future__ import annotations

import time

import numpy as np
from redis import Redis

from services.embedded.redis import EmbeddedRedis
from services.meter.history import RESOLUTIONS, WEEK_S, Resolution
from services.meter.redis_archive import RedisArchive
from services.settings.root import RedisSettings
from services.store.connect import connect
from services.store.keys import Keys

WEEK = Resolution(60.0, WEEK_S)
PLAIN_TOPICS = 10


def used_bytes(client: Redis, prefix: str) -> int:
    """What the server says its keys of this prefix take. Its total would count buffers that come and go."""
    pipe = client.pipeline(transaction=False)
    for key in client.scan_iter(match=f"{prefix}*", count=1000):
        pipe.memory_usage(key, samples=0)
    return sum(pipe.execute())


async def archived_bytes(client: Redis, url: str, resolution: Resolution, *, topics: int) -> float:
    """Bytes a topic. The bins of the first are written ten at a time, as a meter does; then all at once."""
    prefix, archiving = f"bench-{resolution.bins}", connect(RedisSettings(url=url))
    last = int(time.time() // resolution.step_s)
    rates = np.random.default_rng(1).lognormal(6.0, 1.0, resolution.bins).astype(np.float32)
    for topic in range(topics):
        archive = RedisArchive(archiving, Keys(prefix), f"topic-{topic}")
        width = 10 if topic == 0 else resolution.bins
        for first in range(0, resolution.bins, width):
            await archive.save(resolution, last - resolution.bins + first, rates[first : first + width])
    await archiving.aclose()
    return used_bytes(client, prefix) / topics


def sorted_set_bytes(client: Redis) -> float:
    """Bytes a topic the plain way: a sorted set of `time:rate` by time."""
    now = int(time.time())
    for topic in range(PLAIN_TOPICS):
        pipe = client.pipeline(transaction=False)
        for minute in range(WEEK.bins):
            at = now - 60 * minute
            pipe.zadd(f"plain-{topic}", {f"{at}:{412.5 + minute}": at})
        pipe.execute()
    return used_bytes(client, "plain-") / PLAIN_TOPICS


async def memory(*, topics: int) -> dict[str, float | int | str]:
    """Megabytes for a week of minutes of `topics` topics, and for all that is kept by default."""
    with EmbeddedRedis() as server, Redis.from_url(server.url) as client:
        week = await archived_bytes(client, server.url, WEEK, topics=topics)
        kept = sum([await archived_bytes(client, server.url, grid, topics=50) for grid in RESOLUTIONS])
        plain = sorted_set_bytes(client)
    return {
        "memory_topics": topics,
        "memory_week_of_minutes_mb": week * topics / 1e6,
        "memory_sorted_set_mb": plain * topics / 1e6,
        "memory_ratio": week / plain,
        "memory_all_resolutions_kb_a_topic": kept / 1e3,
    }
