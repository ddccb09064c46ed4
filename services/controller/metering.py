"""The meters of all jobs: one connection to Kafka for their polls, one archive for their past."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

from redis.asyncio import Redis

from forecasting.history import TrafficHistory
from services.control.ports import Clock
from services.control.types import Shuffle
from services.controller.topic_watch import POLL_EVERY_S, TopicWatch
from services.meter.backfill import BackfillTerms
from services.meter.figures import MeterFigures
from services.meter.fleet import FleetOffsets
from services.meter.history import WEEK_S, Resolution
from services.meter.kafka_meter import KafkaMeter
from services.meter.redis_archive import RedisArchive
from services.settings import JobSettings, Settings
from services.store.keys import Keys
from shuffler.lease import Progress

WATCHED = Resolution(60.0, 2 * WEEK_S)
"""What is kept of a topic that no job trains."""


class Metering:
    """Opens the meter of each job. Backfills take turns: the budget is the cluster's, not each job's."""

    def __init__(self, settings: Settings, redis: Redis, keys: Keys, clock: Clock) -> None:
        self._settings, self._redis, self._keys, self._clock = settings, redis, keys, clock
        self._fleet: FleetOffsets | None = None
        self._turns = asyncio.Semaphore(1)
        self._meters: dict[str, KafkaMeter] = {}
        self._watch: TopicWatch | None = None
        self._watching: asyncio.Task[None] | None = None

    def start_watch(self, *, leading: Callable[[], bool]) -> None:
        """Measure the topics that the settings say are to be watched, in the background, while leading."""
        kafka = self._settings.kafka
        if kafka.watch and self._watch is None:
            self._watch = TopicWatch(kafka.watch, self._shared(), self._watcher, self._clock)
            self._watching = asyncio.create_task(self._watch.run(leading=leading), name="topic watch")

    @asynccontextmanager
    async def open(
        self,
        name: str,
        job: JobSettings,
        *,
        progress: Callable[[], Awaitable[Progress]],
        fresh_within_s: Callable[[], float],
        past: TrafficHistory | None = None,
    ) -> AsyncIterator[KafkaMeter]:
        """The meter of one job, closed with the context; `past` is traffic from before its first reading."""
        kafka, leases = self._settings.kafka, job.shuffle.mode is Shuffle.LEASES
        archive = partial(RedisArchive, self._redis, self._keys, name)
        meter = KafkaMeter(
            kafka.client(),
            topic=job.topic,
            group=job.group_of(name),
            clock=self._clock,
            step_s=job.forecast.step_s,
            window_s=job.meter.window_s,
            gap_s=job.meter.gap_s,
            timeout_s=kafka.timeout_s,
            resolutions=resolutions_of(job),
            uncommitted="latest" if job.shuffle.start == "latest" else "earliest",
            progress=progress if leases else None,
            fresh_within_s=fresh_within_s if leases else None,
            archive=archive(),
            late_archives=(archive(series="trained"), archive(series="late")) if leases else None,
            backfill=backfill_of(job),
            backfill_turns=self._turns,
            source=self._shared().source(job.topic, group=job.group_of(name)),
        )
        watched = None if self._watch is None else self._watch.past_of(job.topic)
        for known in (past, watched):
            if known is not None:
                meter.seed(known)
        async with meter:
            self._meters[name] = meter
            try:
                yield meter
            finally:
                del self._meters[name]

    def figures(self) -> Mapping[str, MeterFigures]:
        """What the open meters say of themselves, by job."""
        return {name: meter.figures() for name, meter in self._meters.items()}

    def watched(self) -> Mapping[str, MeterFigures]:
        """What is known of the topics that are only watched, by topic."""
        return {} if self._watch is None else self._watch.figures()

    async def close(self) -> None:
        """Let go of the cluster, once the meters are closed."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if self._watch is not None:
            await self._watch.close()
        if self._fleet is not None:
            await self._fleet.close()

    def _watcher(self, topic: str) -> KafkaMeter:
        """A meter of arrivals alone: nobody trains the topic, so there is no lag to tell."""

        async def nobody() -> Mapping[int, int]:
            return {}

        return KafkaMeter(
            self._settings.kafka.client(),
            topic=topic,
            group="",
            clock=self._clock,
            uncommitted="end",
            progress=nobody,
            gap_s=3 * POLL_EVERY_S,
            resolutions=(WATCHED,),
            archive=RedisArchive(self._redis, self._keys, f"_topic.{topic}"),
            source=self._shared().source(topic, group=""),
        )

    def _shared(self) -> FleetOffsets:
        """Made when the first job is opened: a controller that only follows needs no connection."""
        if self._fleet is None:
            kafka = self._settings.kafka
            self._fleet = FleetOffsets(
                kafka.client(), timeout_s=kafka.timeout_s, layout_every_s=kafka.metadata_every_s
            )
        return self._fleet


def resolutions_of(job: JobSettings) -> tuple[Resolution, ...]:
    """How finely and for how long the job's past is kept."""
    kept = zip(job.meter.history_step_s, job.meter.history_keep_s, strict=True)
    return tuple(Resolution(step_s, keep_s) for step_s, keep_s in kept)


def backfill_of(job: JobSettings) -> BackfillTerms | None:
    """What to ask Kafka of the past; None when it is not wanted."""
    wanted = job.meter.backfill
    if not wanted.days:
        return None
    return BackfillTerms(days=wanted.days, lookups_max=wanted.lookups_max, lookups_per_s=wanted.lookups_per_s)
