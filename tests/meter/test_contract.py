"""What every Kafka must let the meter see: the embedded cluster, a real broker, one in a container."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

import pytest

from services.control.errors import TrafficUnavailable
from services.control.types import TrafficReading
from services.meter.fleet import FleetOffsets
from services.meter.kafka_offsets import KafkaOffsets
from services.meter.layout import Layout
from services.meter.poll import OffsetPoll
from tests.meter.live_topic import LiveTopic, Metered, healthy
from tests.meter.scripted import ManualClock
from tests.servers.kafka import KafkaUnderTest


@pytest.fixture
def live(every_kafka: KafkaUnderTest, group: str) -> LiveTopic:
    return LiveTopic(every_kafka.bootstrap, every_kafka.new_topic(partitions=3), group)


async def test_rates_are_counts_over_time_by_partition_and_in_sum(live: LiveTopic) -> None:
    async with Metered(live) as metered:
        await metered.read()
        live.produce(30, 0, 120)

        reading = await metered.read(2.0)

    assert reading.partition_rates == pytest.approx((10.0, 0.0, 40.0))  # since the first look, 3 s ago
    assert reading.rate_per_s == pytest.approx(50.0)
    assert reading.degraded == ""


async def test_lag_is_what_the_group_has_not_committed(live: LiveTopic) -> None:
    async with Metered(live) as metered:
        await metered.read()
        live.produce(30, 40, 50)
        live.commit({0: 30, 1: 15})

        reading = await metered.read()

    assert reading.partition_lags == (0, 25, 50)
    assert reading.lag == 75
    assert reading.trained_per_s == pytest.approx(45 / 2)


async def test_a_group_that_never_committed_has_all_of_the_log_to_train(live: LiveTopic) -> None:
    live.produce(5, 0, 7)
    async with Metered(live) as metered:
        reading = await metered.read()

    assert reading.partition_lags == (5, 0, 7)
    assert reading.lost == 0


async def test_time_lag_is_the_age_of_the_oldest_untrained_sample_to_one_tick(live: LiveTopic) -> None:
    async with Metered(live) as metered:
        reading = await metered.read()
        for second in range(20):
            live.produce(10)
            live.commit({0: max(0, second - 5) * 10})
            reading = await metered.read()

    assert reading.lag_s == pytest.approx(6.0, abs=1.0)


async def test_commits_moved_back_are_lag_and_not_negative_training(live: LiveTopic) -> None:
    async with Metered(live) as metered:
        await metered.read()
        live.produce(100)
        live.commit({0: 100})
        await metered.read()
        live.commit({0: 20})

        reading = await metered.read()

    assert reading.partition_lags[0] == 80
    assert reading.trained_per_s >= 0


async def test_sizes_do_not_matter(live: LiveTopic) -> None:
    async with Metered(live) as metered:
        await metered.read()
        for size in (0, 1, 1000, 100_000):
            live.produce(10, size=size)

        reading = await metered.read()

    assert reading.rate_per_s == pytest.approx(40 / 2)


async def test_a_missing_topic_is_named_with_its_cluster_and_never_created(
    every_kafka: KafkaUnderTest, group: str
) -> None:
    live = LiveTopic(every_kafka.bootstrap, "no-such-topic", group)

    for _ in range(2):  # the first question must not have created it
        async with Metered(live) as metered:
            with pytest.raises(TrafficUnavailable) as told:
                await metered.read()
        assert re.search(r"'no-such-topic' is not on 127.*create it, or correct", str(told.value))


async def test_an_unreachable_cluster_is_named(group: str) -> None:
    live = LiveTopic("127.0.0.1:9", "clicks", group)

    async with Metered(live, timeout_s=0.5) as metered:
        with pytest.raises(TrafficUnavailable, match=r"no broker at 127\.0\.0\.1:9 answers"):
            await metered.read()


class CountedOffsets(KafkaOffsets):
    """Remembers which topics were polled together."""

    polled: ClassVar[list[set[str]]] = []

    def poll(self, topics: Collection[str]) -> Mapping[str, OffsetPoll | TrafficUnavailable]:
        self.polled.append(set(topics))
        return super().poll(topics)


async def test_a_fleet_reads_many_topics_in_shared_polls(every_kafka: KafkaUnderTest, group: str) -> None:
    topics = [LiveTopic(every_kafka.bootstrap, every_kafka.new_topic(partitions=2), group) for _ in range(5)]
    clock = ManualClock(time.time())
    offsets = CountedOffsets(topics[0].client, elapsed_s=clock.elapsed_s)
    async with FleetOffsets(topics[0].client, offsets=offsets) as fleet:
        meters = [
            Metered(live, clock=clock, source=fleet.source(live.topic, group=group)).meter for live in topics
        ]
        await asyncio.gather(*(meter.read() for meter in meters))
        for number, live in enumerate(topics):
            live.produce(number, 10)
        offsets.polled.clear()
        clock.advance(1.0)

        readings = await asyncio.gather(*(meter.read() for meter in meters))

        assert [reading.partition_lags for reading in readings] == [(n, 10) for n in range(5)]
        assert all(reading.rate_per_s > 0 for reading in readings)
        assert offsets.polled == [{live.topic for live in topics}], "one poll for all of them"
        for meter in meters:
            await meter.close()


async def test_more_partitions_than_fit_one_call_are_measured_and_not_listed_each_time(
    every_kafka: KafkaUnderTest, group: str
) -> None:
    live = LiveTopic(every_kafka.bootstrap, every_kafka.new_topic(partitions=20), group)
    clock = ManualClock(time.time())
    offsets = KafkaOffsets(live.client, elapsed_s=clock.elapsed_s, chunk=8)
    listed: list[list[str]] = []
    ask = offsets.layouts.ask

    def counted(topics: Iterable[str]) -> Mapping[str, Layout]:
        listed.append(list(topics))
        return ask(listed[-1])

    offsets.layouts.ask = counted  # type: ignore[method-assign]
    async with FleetOffsets(live.client, offsets=offsets) as fleet:
        metered = Metered(live, clock=clock, source=fleet.source(live.topic, group=group))
        await metered.until(healthy)
        listed.clear()
        live.produce_to(19, 30)
        readings = [await metered.read() for _ in range(8)]
        await metered.meter.close()

    assert len(readings[-1].partition_rates) == 20
    assert (readings[-1].partition_lags[-1], readings[-1].lag) == (30, 30)
    assert len(listed) <= 1, "metadata are refreshed now and then, not fetched at each tick"


async def test_topics_are_found_by_a_regular_expression(every_kafka: KafkaUnderTest) -> None:
    wanted = {every_kafka.new_topic(partitions=1) for _ in range(3)}
    every_kafka.new_topic(partitions=1)
    client = {"bootstrap.servers": every_kafka.bootstrap}

    async with FleetOffsets(client) as fleet:
        found = await fleet.topics("|".join(re.escape(name) for name in wanted))
        nothing = await fleet.topics(next(iter(wanted))[:-1])

    assert set(found) == wanted
    assert nothing == (), "the whole name must match"


async def test_a_missing_topic_does_not_disturb_the_rest_of_the_fleet(live: LiveTopic) -> None:
    async with FleetOffsets(live.client) as fleet:
        there = Metered(live, source=fleet.source(live.topic, group=live.group)).meter
        missing = Metered(live, source=fleet.source("no-such-topic", group=live.group)).meter

        read, failed = await asyncio.gather(there.read(), missing.read(), return_exceptions=True)

        assert isinstance(failed, TrafficUnavailable)
        assert isinstance(read, TrafficReading)
        assert read.degraded == ""
        await there.close()
        await missing.close()
