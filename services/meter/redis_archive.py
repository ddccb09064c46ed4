"""Traffic history in Redis: four bytes a bin, written in place.

A day of minutes is one string of 1,440 32-bit floats, other resolutions likewise;
`SETRANGE` writes a bin where it belongs, whatever was written before. Bytes that
were never written are zero, so zero bytes mean a gap, and a true zero is
written as minus zero. A week of minutes is 47 kB of server memory a topic,
47 MB for a thousand topics.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from redis.asyncio import Redis

from services.meter.archive import Bins
from services.meter.history import Resolution
from services.store.connect import asking
from services.store.keys import Keys

BINS_A_STRING = 1440
_WIDTH = 4


class RedisArchive:
    """The archive of one job's traffic, or of another `series` of counts that go with it."""

    def __init__(self, client: Redis, keys: Keys, job: str, *, series: str = "") -> None:
        self._series = f"{series}:" if series else ""
        self._client = client
        self._keys = keys
        self._job = job
        self._made: dict[float, str] = {}
        """By step, the string last written to: it exists."""

    async def load(self, resolution: Resolution, *, now_s: float) -> tuple[int, Bins]:
        last = math.floor(now_s / resolution.step_s)
        first = last - resolution.bins
        strings = range(first // BINS_A_STRING, last // BINS_A_STRING + 1)
        async with asking(self._client, "load traffic history"):
            raw: list[Any] = await self._client.mget([self._key(resolution, string) for string in strings])
        bins = np.concatenate([_decoded(text) for text in raw])
        start = first - strings[0] * BINS_A_STRING
        return first, bins[start : start + resolution.bins]

    async def save(self, resolution: Resolution, first_bin: int, rates: Bins) -> None:
        end = first_bin + len(rates)
        edges = [first_bin, *range((first_bin // BINS_A_STRING + 1) * BINS_A_STRING, end, BINS_A_STRING), end]
        keep_s = math.ceil(resolution.keep_s + BINS_A_STRING * resolution.step_s)
        async with asking(self._client, "save traffic history"):
            pipe = self._client.pipeline(transaction=False)
            for start, stop in pairwise(edges):
                key = self._key(resolution, start // BINS_A_STRING)
                if key != self._made.get(resolution.step_s):
                    # Made in full at once, it takes its own size; grown bin by bin, twice that.
                    pipe.set(key, bytes(BINS_A_STRING * _WIDTH), nx=True)
                offset = start % BINS_A_STRING * _WIDTH
                pipe.setrange(key, offset, _encoded(rates[start - first_bin : stop - first_bin]))
                pipe.expire(key, keep_s)
            await pipe.execute()
        self._made[resolution.step_s] = self._key(resolution, (end - 1) // BINS_A_STRING)

    def _key(self, resolution: Resolution, string: int) -> str:
        return self._keys.traffic(self._job, f"{self._series}{resolution.step_s:.9g}:{string}")


def _encoded(rates: Bins) -> bytes:
    """
    >>> _encoded(np.array([np.nan, 0.0, 1.0], dtype=np.float32)).hex()
    '00000000000000800000803f'
    """
    written = np.where(np.isnan(rates), np.float32(0.0), np.where(rates == 0, np.float32(-0.0), rates))
    return bytes(written.astype("<f4").tobytes())


def _decoded(text: bytes | None) -> Bins:
    bins = np.full(BINS_A_STRING, np.nan, dtype=np.float32)
    if text:
        told = np.frombuffer(text, dtype="<f4")
        gap = (told == 0) & ~np.signbit(told)
        bins[: len(told)] = np.where(gap, np.nan, np.abs(told))
    return bins
