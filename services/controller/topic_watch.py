"""Topics that no job trains yet, measured all the same: whoever makes a job of one finds its past.

Which topics, regular expressions say. The list is looked at again every so often, so that a
topic made tomorrow is found tomorrow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import structlog

from forecasting.history import TrafficHistory
from services.control.errors import TrafficUnavailable
from services.control.ports import Clock
from services.meter.figures import MeterFigures
from services.meter.fleet import FleetOffsets
from services.meter.kafka_meter import KafkaMeter

log = structlog.get_logger()

POLL_EVERY_S = 10.0
"""Nothing is decided on these: the rates need not be finer than this."""
LIST_EVERY_S = 60.0

NewMeter = Callable[[str], KafkaMeter]


class TopicWatch:
    """Measures the topics that match, in the fleet's shared polls, until it is closed."""

    def __init__(
        self, patterns: Sequence[str], fleet: FleetOffsets, new_meter: NewMeter, clock: Clock
    ) -> None:
        self._pattern = "|".join(f"(?:{pattern})" for pattern in patterns)
        self._fleet, self._new_meter, self._clock = fleet, new_meter, clock
        self._meters: dict[str, KafkaMeter] = {}
        self._listed_at_s = float("-inf")
        self._trouble = ""

    async def run(self, *, leading: Callable[[], bool]) -> None:
        """Look for ever, while leading: two need not ask the same. A cluster that is away is tried again."""
        while True:
            if leading():
                await self.look()
            await self._clock.sleep_until(self._clock.now_s() + (POLL_EVERY_S if leading() else 1.0))

    async def look(self) -> None:
        """Measure every topic once, and look for new and vanished ones when that is due."""
        try:
            if abs(self._clock.now_s() - self._listed_at_s) >= LIST_EVERY_S:
                await self._list()
        except TrafficUnavailable as error:
            self._tell(str(error))
            return
        self._tell("")
        # A topic that cannot be read tells so in its own log; the others go on.
        await asyncio.gather(*(meter.read() for meter in self._meters.values()), return_exceptions=True)

    def past_of(self, topic: str) -> TrafficHistory | None:
        """What is known of a topic; None when it is not watched or nothing was seen."""
        meter = self._meters.get(topic)
        past = None if meter is None else meter.history()
        return past if past is not None and past.known else None

    def figures(self) -> Mapping[str, MeterFigures]:
        """What the meters say of themselves, by topic."""
        return {topic: meter.figures() for topic, meter in self._meters.items()}

    async def close(self) -> None:
        """Let go of all topics."""
        for meter in self._meters.values():
            await meter.close()
        self._meters.clear()

    async def _list(self) -> None:
        found = set(await self._fleet.topics(self._pattern))
        self._listed_at_s = self._clock.now_s()
        for topic in self._meters.keys() - found:
            await self._meters.pop(topic).close()
            log.info("topic_not_watched_any_more", topic=topic)
        for topic in sorted(found - self._meters.keys()):
            self._meters[topic] = self._new_meter(topic)
            log.info("topic_watched", topic=topic)

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("topics_not_listed", trouble=trouble)
        self._trouble = trouble
