"""The shared polls of a fleet, when what polls is not well."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import cast

from services.meter.fleet import FleetOffsets
from services.meter.kafka_offsets import KafkaOffsets


class Mistaken:
    """Whoever asks it meets what nobody foresaw."""

    def poll(self, topics: Collection[str]) -> None:
        raise RuntimeError("handle is destroyed")

    def close(self) -> None:
        pass


async def test_what_nobody_foresaw_in_a_poll_is_told_to_all_who_wait_for_it_and_to_those_after() -> None:
    async with FleetOffsets({}, offsets=cast(KafkaOffsets, Mistaken())) as fleet:
        for _ in range(2):
            async with asyncio.timeout(10.0):
                told = await asyncio.gather(fleet.poll("ads"), fleet.poll("clicks"), return_exceptions=True)
            assert [str(error) for error in told] == ["handle is destroyed"] * 2
