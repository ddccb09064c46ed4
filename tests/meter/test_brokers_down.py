"""Brokers die, hang and come back under the meter: it holds what it knew, says so, and never reads zero."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from services.control.types import TrafficReading
from services.embedded.apache import ApacheKafka
from tests.meter.live_topic import CommittedReader, LiveTopic, Metered, healthy
from tests.servers.kafka import lacking, unique_name
from tests.waiting import eventually

pytestmark = [pytest.mark.real_broker, pytest.mark.timeout(420)]

SETTINGS = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ApacheKafka]:
    reason = lacking("apache")
    if reason is not None:
        pytest.skip(f"three Apache Kafka brokers: {reason}")
    with ApacheKafka(brokers=3, settings=SETTINGS) as kafka:
        yield kafka


def leaders(cluster: ApacheKafka, topic: str) -> list[int]:
    """Who leads each partition; -1 for nobody."""
    admin = cluster.admin()
    known = admin.list_topics(timeout=20).topics
    if topic not in known:
        return [-1]  # made, and not known to the broker that was asked
    found = known[topic].partitions
    return [found[number].leader for number in sorted(found)]


def new_topic(cluster: ApacheKafka, *, replication: int, **config: str) -> LiveTopic:
    name = unique_name("topic")
    named = {name_.replace("_", "."): value for name_, value in config.items()}
    cluster.create_topic(name, 3, replication=replication, config=named)
    eventually(lambda: -1 not in leaders(cluster, name), within_s=60)
    return LiveTopic(cluster.bootstrap, name, unique_name("group"))


async def warmed(metered: Metered, live: LiveTopic) -> TrafficReading:
    """Read until all is well, with traffic in every partition."""
    await metered.until(healthy)
    live.produce(10, 10, 10)
    return await metered.until(lambda reading: healthy(reading) and min(reading.partition_rates) > 0)


async def recovered(metered: Metered) -> TrafficReading:
    """Read until all is well again; on the way there nothing may read as silence."""

    def well(reading: TrafficReading) -> bool:
        assert reading.rate_per_s > 0
        return healthy(reading)

    return await metered.until(well)


async def test_a_partition_without_a_leader_keeps_its_rate_and_the_others_go_on(cluster: ApacheKafka) -> None:
    live = new_topic(cluster, replication=1)
    async with Metered(live, timeout_s=2.0, window_s=1000.0) as metered:
        before = await warmed(metered, live)
        victim = leaders(cluster, live.topic)[1]
        cluster.kill_broker(victim)
        try:
            reading = await metered.until(lambda r: "1 partitions: no leader" in r.degraded)
            assert reading.partition_rates[1] == pytest.approx(before.partition_rates[1])
            assert reading.rate_per_s > 0
            assert metered.meter.figures().held_partitions == 1
        finally:
            cluster.start_broker(victim)
        after = await recovered(metered)

    assert after.partition_rates[1] <= before.partition_rates[1], "its return is not a burst"


async def test_a_replicated_topic_is_measured_on_when_a_broker_dies(cluster: ApacheKafka) -> None:
    live = new_topic(cluster, replication=3)
    async with Metered(live, timeout_s=2.0, window_s=1000.0) as metered:
        await warmed(metered, live)
        victim = leaders(cluster, live.topic)[0]
        cluster.kill_broker(victim)
        try:
            reading = await recovered(metered)  # by itself, on the new leader
            live.produce(50)
            after = await metered.until(lambda r: healthy(r) and r.lag == reading.lag + 50)
        finally:
            cluster.start_broker(victim)

    assert after.partition_rates[0] > 0


async def test_a_coordinator_that_dies_ends_neither_the_process_nor_the_measuring(
    cluster: ApacheKafka,
) -> None:
    live = new_topic(cluster, replication=3)
    live.commit({0: 0, 1: 0, 2: 0})
    async with Metered(live, timeout_s=2.0, window_s=1000.0) as metered:
        await warmed(metered, live)
        victim = leaders(cluster, "__consumer_offsets")[0]
        cluster.kill_broker(victim)
        try:
            for _ in range(5):
                assert (await metered.read()).rate_per_s > 0
            await recovered(metered)
        finally:
            cluster.start_broker(victim)
        live.commit({0: 4, 1: 4, 2: 4})
        reading = await metered.until(lambda r: healthy(r) and r.lag == 18)

    assert reading.trained_per_s > 0


async def test_a_broker_that_hangs_makes_a_slow_poll_and_no_false_one(cluster: ApacheKafka) -> None:
    live = new_topic(cluster, replication=1)
    async with Metered(live, timeout_s=1.0, window_s=1000.0) as metered:
        before = await warmed(metered, live)
        victim = leaders(cluster, live.topic)[2]
        os.kill(cluster.pid(victim), signal.SIGSTOP)
        try:
            hung = await metered.read()
        finally:
            os.kill(cluster.pid(victim), signal.SIGCONT)
        assert hung.degraded
        assert hung.partition_rates[2] == pytest.approx(before.partition_rates[2])
        await recovered(metered)


async def test_all_brokers_down_is_the_last_good_reading_until_they_are_back(cluster: ApacheKafka) -> None:
    live = new_topic(cluster, replication=3)
    async with Metered(live, timeout_s=1.0) as metered:
        before = await warmed(metered, live)
        for broker in cluster.brokers:
            cluster.kill_broker(broker)
        try:
            down = await metered.until(lambda r: not healthy(r))
            later = await metered.read()
        finally:
            for broker in cluster.brokers:
                cluster._running()[broker].start()
            for broker in cluster.brokers:
                cluster.start_broker(broker)
        assert (down.rate_per_s, down.lag, down.at_s) == (before.rate_per_s, before.lag, before.at_s)
        assert later.at_s == before.at_s
        assert "no broker at" in later.degraded
        after = await recovered(metered)

    assert after.at_s > before.at_s
    assert after.lost == 0


async def test_compaction_removes_records_and_neither_traffic_nor_progress(cluster: ApacheKafka) -> None:
    live = new_topic(
        cluster,
        replication=1,
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="0",
    )
    async with Metered(live, timeout_s=5.0) as metered:
        await metered.until(healthy)
        live.produce_keyed(0, keys=5, count=1400)
        live.commit({0: 0, 1: 0, 2: 0})
        before = await metered.read()

        def compacted() -> bool:
            live.produce_keyed(0, keys=5, count=1)  # the active segment is never compacted: roll it
            return live.readable(0) < 300

        eventually(compacted, within_s=90, every_s=0.5, what="compaction")
        reading = await metered.read()
    with CommittedReader(live) as reader:
        async with Metered(live, progress=reader.progress) as scaled:
            await scaled.read()
            reader.read_on(until=1400)
            await scaled.read()
            ratio = scaled.meter.figures().records_per_offset

    assert reading.partition_lags[0] >= before.partition_lags[0], "offsets stay, so does the lag in offsets"
    assert reading.rate_per_s > 0
    assert reading.lost == 0, "compacted is not lost"
    assert ratio == pytest.approx(reader.records / reader.reached, rel=0.02), "as few as readers find"
