"""What is told of the ticks to followers and watchers."""

from __future__ import annotations

import asyncio
from typing import cast

from services.control.errors import PoolUnavailable
from services.control.loop import Tick
from services.controller.publisher import Publisher
from services.store.snapshots import SnapshotStore
from services.store.streams import StreamLog
from tests.waiting import eventually_async


class Kept:
    """Events and snapshots of ticks, as far as this test looks at them."""

    def __init__(self) -> None:
        self.snapshots: list[str] = []
        self.events = 0

    async def append(self, fields: object) -> None:
        self.events += 1

    async def put(self, job: str, document: bytes) -> None:
        self.snapshots.append(document.decode())


async def test_followers_are_told_on_after_a_clock_that_was_set_back() -> None:
    kept = Kept()
    ticks = [
        Tick("ads", at_s, error=PoolUnavailable("away"))
        for at_s in (5000.0, 5001.0, 5002.0, 1402.0, 1403.0, 1404.0)
    ]
    at_s = iter((5000.0, 5002.0, 1402.0, 1404.0))

    async def document(job: str) -> bytes:
        return f"{next(at_s):g}".encode()

    publisher = Publisher(cast(StreamLog, kept), cast(SnapshotStore, kept), document)
    running = asyncio.create_task(publisher.run())
    for tick in ticks:
        publisher.told(tick)
    await eventually_async(lambda: kept.events == len(ticks) + 1, what="all ticks and one trouble are told")
    running.cancel()
    await asyncio.wait([running])

    assert kept.snapshots == ["5000", "5002", "1402", "1404"]


async def test_a_tick_that_cannot_be_told_keeps_no_other_from_being_told() -> None:
    kept = Kept()

    async def document(job: str) -> bytes:
        if job == "broken":
            raise ZeroDivisionError
        return job.encode()

    publisher = Publisher(cast(StreamLog, kept), cast(SnapshotStore, kept), document)
    running = asyncio.create_task(publisher.run())
    for job in ("broken", "ads"):
        publisher.told(Tick(job, 5000.0, error=PoolUnavailable("away")))
    await eventually_async(lambda: kept.snapshots == ["ads"], what="the other job to be told")
    running.cancel()
    await asyncio.wait([running])
