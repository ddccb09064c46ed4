"""The meters as a live controller opens them, on a real Redis and whichever Kafka there is."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import ClassVar

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from forecasting.history import TrafficHistory
from services.clock import SystemClock
from services.control.errors import TrafficUnavailable
from services.control.types import TrafficReading
from services.controller.meter_metrics import MeterMetrics
from services.controller.metering import Metering, backfill_of, resolutions_of
from services.controller.topic_watch import LIST_EVERY_S, TopicWatch
from services.meter.figures import MeterFigures
from services.settings import JobSettings, Settings
from services.store.connect import connect
from services.store.keys import Keys
from shuffler.lease import Progress
from tests.meter.live_topic import LiveTopic
from tests.meter.scripted import ManualClock
from tests.servers.kafka import KafkaUnderTest
from tests.waiting import eventually_async


@pytest.fixture
def live(every_kafka: KafkaUnderTest, group: str) -> LiveTopic:
    return LiveTopic(every_kafka.bootstrap, every_kafka.new_topic(partitions=2), group)


@pytest.fixture
async def metering(live: LiveTopic, redis_url: str) -> AsyncIterator[Metering]:
    settings = Settings.model_validate({"kafka": {"bootstrap": live.bootstrap}, "redis": {"url": redis_url}})
    redis = connect(settings.redis)
    metering = Metering(settings, redis, Keys("test"), SystemClock())
    yield metering
    await metering.close()
    await redis.aclose()


def a_job(live: LiveTopic, **meter: object) -> JobSettings:
    return JobSettings.model_validate({"topic": live.topic, "group": live.group, "meter": meter})


class Trainer:
    """A ledger that stands where the test says."""

    def __init__(self) -> None:
        self.watermarks: dict[int, int] = {}
        self.trained = 0

    async def progress(self) -> Progress:
        return Progress(dict(self.watermarks), {}, self.trained, late=0, repeated=0, lost=0, epoch=1)


async def read(metering: Metering, job: JobSettings, trainer: Trainer, **more: object) -> TrafficReading:
    async with metering.open("clicks", job, **promise(trainer), **more) as meter:  # type: ignore[arg-type]
        return await meter.read()


def promise(trainer: Trainer) -> dict[str, object]:
    return {"progress": trainer.progress, "fresh_within_s": lambda: 60.0}


async def test_a_past_is_archived_and_found_by_the_next_controller(
    live: LiveTopic, metering: Metering
) -> None:
    start_s = time.time() // 60 * 60 - 600
    past = TrafficHistory(start_s=start_s, step_s=60.0, rates=np.arange(10.0))
    job = a_job(live, backfill={"days": 0})
    await read(metering, job, Trainer(), past=past)

    async with metering.open("clicks", job, progress=Trainer().progress, fresh_within_s=lambda: 1.0) as meter:
        await meter.read()
        found = meter.history()

    assert found.rates[:10].tolist() == list(range(10))


async def test_the_ledger_tells_lag_and_how_many_samples_there_are_to_an_offset(
    live: LiveTopic, metering: Metering
) -> None:
    trainer = Trainer()
    live.produce(3300, 10)
    async with metering.open("clicks", a_job(live), **promise(trainer)) as meter:  # type: ignore[arg-type]
        trainer.watermarks = {0: 0, 1: 0}
        await meter.read()
        trainer.watermarks, trainer.trained = {0: 2200, 1: 0}, 2000
        reading = await meter.read()
        figures = metering.figures()["clicks"]

    assert figures.records_per_offset == pytest.approx(10 / 11)
    assert reading.partition_lags == (1000, 10)
    assert metering.figures() == {}, "a closed meter says nothing any more"


async def test_jobs_are_measured_in_shared_polls(live: LiveTopic, metering: Metering) -> None:
    live.produce(5, 5)
    job, trainer = a_job(live), Trainer()
    async with (
        metering.open("one", job, **promise(trainer)) as one,  # type: ignore[arg-type]
        metering.open("other", job, **promise(trainer)) as other,  # type: ignore[arg-type]
    ):
        readings = await asyncio.gather(one.read(), other.read())
        exported = generate_latest(registry_of(metering)).decode()

    assert [reading.lag for reading in readings] == [10, 10]
    for name in ("one", "other"):
        assert f'penstock_meter_partitions{{job="{name}"}} 2.0' in exported


def registry_of(metering: Metering) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(MeterMetrics(metering.figures, metering.watched))
    return registry


def test_settings_say_what_is_kept_and_what_is_asked_of_kafka() -> None:
    job = JobSettings.model_validate(
        {
            "topic": "clicks",
            "meter": {"history_step_s": [5, 60], "history_keep_s": [600, 3600], "backfill": {"days": 2}},
        }
    )

    assert [(kept.step_s, kept.bins) for kept in resolutions_of(job)] == [(5.0, 120), (60.0, 60)]
    terms = backfill_of(job)
    assert terms is not None
    assert terms.days == 2.0


@pytest.mark.parametrize(
    "meter",
    [
        {"history_step_s": [1, 60]},
        {"history_step_s": [60], "history_keep_s": [30]},
        {"history_step_s": [60, 60], "history_keep_s": [3600, 3600]},
    ],
)
def test_resolutions_that_cannot_be_are_refused(meter: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="history_step_s"):
        JobSettings.model_validate({"topic": "clicks", "meter": meter})


def test_what_is_not_known_is_left_out_of_the_metrics_and_errors_are_told_by_kind() -> None:
    figures = {
        "clicks": MeterFigures(
            topic="clicks",
            polls=4,
            poll_s_total=0.5,
            failed_polls=1,
            errors={"no leader": 2, "unavailable": 1},
        ),
        "views": MeterFigures(topic="views", late_share=0.25, event_age_s=7.0, late=3, staleness_s=12.0),
    }
    registry = CollectorRegistry()
    registry.register(MeterMetrics(lambda: figures))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"penstock_{name}", labels)

    assert value("late_share", job="clicks") is None
    assert value("event_time_age_seconds", job="clicks") is None
    assert value("late_share", job="views") == 0.25
    assert value("event_time_age_seconds", job="views") == 7.0
    assert value("meter_staleness_seconds", job="views") == 12.0
    assert value("late_samples_total", job="views") == 3
    assert value("meter_poll_seconds_count", job="clicks") == 4
    assert value("meter_poll_seconds_sum", job="clicks") == 0.5
    assert value("meter_failed_polls_total", job="clicks") == 1
    assert value("meter_errors_total", job="clicks", kind="no leader") == 2


async def test_a_topic_that_matches_is_watched_and_lends_its_past_to_a_job(
    live: LiveTopic, every_kafka: KafkaUnderTest, redis_url: str
) -> None:
    other = every_kafka.new_topic(partitions=1)
    settings = Settings.model_validate(
        {
            "kafka": {"bootstrap": live.bootstrap, "watch": [f"{live.topic[:-2]}..", "nothing-like-it"]},
            "redis": {"url": redis_url},
        }
    )
    redis = connect(settings.redis)
    metering = Metering(settings, redis, Keys("test"), SystemClock())
    try:
        metering.start_watch(leading=lambda: True)
        await eventually_async(lambda: _measured(metering.watched(), live.topic), what="a watched topic")
        assert other not in metering.watched()
        exported = generate_latest(registry_of(metering)).decode()
        assert f'penstock_watched_topic_samples_per_second{{topic="{live.topic}"}}' in exported

        assert metering._watch is not None
        start_s = time.time() // 60 * 60 - 600
        watcher = metering._watch._meters[live.topic]
        watcher.seed(TrafficHistory(start_s=start_s, step_s=60.0, rates=np.full(10, 7.0)))
        async with metering.open("clicks", a_job(live), **promise(Trainer())) as meter:  # type: ignore[arg-type]
            assert meter.history().rates.tolist() == [7.0] * 10
    finally:
        await metering.close()
        await redis.aclose()


def _measured(watched: Mapping[str, MeterFigures], topic: str) -> bool:
    return topic in watched and watched[topic].partitions == 2


async def test_watching_survives_a_cluster_that_is_away_and_topics_that_come_and_go() -> None:
    class Fleet:
        names: ClassVar[tuple[str, ...] | None] = None

        async def topics(self, pattern: str) -> tuple[str, ...]:
            if self.names is None:
                raise TrafficUnavailable("no broker answers")
            return tuple(name for name in self.names if re.fullmatch(pattern, name))

    class Meter:
        def __init__(self, topic: str) -> None:
            opened.append(topic)
            self.topic = topic

        async def read(self) -> None:
            raise TrafficUnavailable("not this one")

        async def close(self) -> None:
            closed.append(self.topic)

    opened, closed = list[str](), list[str]()
    fleet, clock = Fleet(), ManualClock()
    watch = TopicWatch(["a.*", "b"], fleet, Meter, clock)  # type: ignore[arg-type]
    for names in (None, ("ab", "b", "bc"), ("ab", "ac")):
        Fleet.names = names
        clock.advance(LIST_EVERY_S)
        await watch.look()

    assert opened == ["ab", "b", "ac"]
    assert closed == ["b"]


def test_a_pattern_that_is_none_is_refused_with_the_settings() -> None:
    with pytest.raises(ValueError, match="is no regular expression"):
        Settings.model_validate({"kafka": {"watch": ["clicks-("]}})
