"""A meter on a scripted topic, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from services.control.types import TrafficReading
from services.meter.kafka_meter import KafkaMeter
from services.meter.sources import ThreadedSource
from tests.meter.scripted import ManualClock, ScriptedTopic

Open = Callable[..., KafkaMeter]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def topic(clock: ManualClock) -> ScriptedTopic:
    return ScriptedTopic(clock, base=[0, 0], per_s=[100, 50])


@pytest.fixture
async def opened(clock: ManualClock, topic: ScriptedTopic) -> AsyncIterator[Open]:
    meters: list[KafkaMeter] = []

    def open_(**settings: Any) -> KafkaMeter:
        meter = KafkaMeter(
            {},
            topic="clicks",
            group="g",
            clock=clock,
            step_s=10.0,
            source=ThreadedSource(topic, name="test"),
            elapsed_s=clock.elapsed_s,
            **settings,
        )
        meters.append(meter)
        return meter

    yield open_
    for meter in meters:
        await meter.close()


async def run(meter: KafkaMeter, clock: ManualClock, seconds: int) -> TrafficReading:
    """Read once a second; gives the last reading."""
    for _ in range(seconds - 1):
        clock.advance(1.0)
        await meter.read()
    clock.advance(1.0)
    return await meter.read()
