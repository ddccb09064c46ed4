"""What a real broker does to offsets, one line each, and what the meter must make of it."""

from __future__ import annotations

import time

import numpy as np
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from services.meter.backfill import BackfillTerms
from services.meter.history import RateHistory
from services.meter.kafka_past import past_of_topic
from tests.meter.live_topic import CommittedReader, LiveTopic, Metered, healthy
from tests.servers.kafka import KafkaUnderTest, TopicFactory
from tests.waiting import eventually, eventually_async

pytestmark = pytest.mark.real_broker


@pytest.fixture
def live(kafka: KafkaUnderTest, topic: TopicFactory, group: str) -> LiveTopic:
    return LiveTopic(kafka.bootstrap, topic(partitions=2), group)


async def test_deleted_records_are_lost_and_not_lag(live: LiveTopic, kafka: KafkaUnderTest) -> None:
    live.produce(100, 100)
    live.commit({0: 10, 1: 100})
    async with Metered(live) as metered:
        await metered.read()
        admin = kafka.admin()
        for done in admin.delete_records([TopicPartition(live.topic, p, 60) for p in (0, 1)]).values():
            done.result(30)

        await metered.read(11.0)  # log starts are asked for every ten seconds
        reading = await metered.read()

    assert reading.partition_lags == (40, 0)
    assert reading.lost == 50, "those of partition 0 that nobody had trained"


async def test_an_open_transaction_is_traffic_and_not_yet_lag(live: LiveTopic) -> None:
    live.commit({0: 0, 1: 0})
    async with Metered(live) as metered:
        await metered.read()
        with live.transaction("open") as producer:
            for _ in range(50):
                producer.produce(live.topic, b"x", partition=0)
            producer.flush(30)
            open_ = await metered.read()
            producer.commit_transaction(30)
        # The broker writes the marker a moment after it has said yes.
        closed = await metered.until(lambda reading: reading.lag == 51)

    assert open_.rate_per_s == pytest.approx(50 / 2)
    assert open_.lag == 0
    assert closed.rate_per_s <= 51 / 3, "no burst when it is committed"


async def test_an_aborted_transaction_takes_offsets_but_what_follows_is_not_held_up(live: LiveTopic) -> None:
    live.commit({0: 0, 1: 0})
    async with Metered(live) as metered:
        await metered.read()
        with live.transaction("aborted") as producer:
            producer.produce(live.topic, b"x", partition=0)
            producer.flush(30)
            producer.abort_transaction(30)
        live.produce(10)
        live.commit({0: 12, 1: 0})

        reading = await metered.read()

    assert reading.lag == 0, "a group at the end has no lag, whatever markers lie before it"


def transact(live: LiveTopic, producer: Producer, transactions: int) -> None:
    """Transactions of ten records, every fifth of them aborted; the first is open already."""
    for number in range(transactions):
        if number:
            producer.begin_transaction()
        for _ in range(10):
            producer.produce(live.topic, b"x", partition=0)
        if number % 5 == 4:
            producer.flush(30)  # what was not sent yet would leave no trace
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


async def test_transactions_are_scaled_to_samples_by_what_their_readers_find(live: LiveTopic) -> None:
    """Ten records take eleven offsets, and of an aborted transaction nobody gets anything to train."""
    with live.transaction("many") as producer, CommittedReader(live) as reader:
        async with Metered(live, progress=reader.progress) as metered:
            await metered.read()
            transact(live, producer, 150)
            reader.read_on(until=150 * 11)
            await metered.read()
            await metered.read(100.0)  # by now all of that has left the window
            producer.begin_transaction()
            transact(live, producer, 100)
            reading = await metered.read(10.0)
            closed = await metered.until(lambda seen: seen.lag > 795)

    assert reading.rate_per_s == pytest.approx(80 * 10 / 10, rel=0.02)
    assert closed.lag == pytest.approx(80 * 10, rel=0.02)
    assert metered.meter.figures().records_per_offset == pytest.approx(8 / 11, rel=0.02)


async def test_a_topic_made_anew_is_known_by_its_id(live: LiveTopic, kafka: KafkaUnderTest) -> None:
    live.produce(30, 30)
    live.commit({0: 30, 1: 30})
    admin = kafka.admin()
    async with Metered(live) as metered:
        await metered.read()
        before = await metered.read()
        assert before.lag == 0
        admin.delete_topics([live.topic])[live.topic].result(30)
        eventually(lambda: live.topic not in admin.list_topics(timeout=10).topics)
        gone = await metered.read(11.0)
        assert "is not on" in gone.degraded
        assert gone.at_s == before.at_s

        kafka._create(live.topic, 2, None)
        again = LiveTopic(live.bootstrap, live.topic, live.group)
        again.produce(200, 0)  # more than the old one ever held
        # Leaders of new partitions take a moment.
        reading = await metered.until(healthy)

    assert reading.partition_lags == (200, 0), "none of it is trained, though the old commit was 30"
    assert 0 < reading.rate_per_s < 200


async def test_partitions_added_while_running_are_found(live: LiveTopic, kafka: KafkaUnderTest) -> None:
    async with Metered(live) as metered:
        await metered.read()
        await metered.read()
        admin = kafka.admin()
        admin.create_partitions([NewPartitions(live.topic, 4)])[live.topic].result(30)
        eventually(lambda: len(admin.list_topics(timeout=10).topics[live.topic].partitions) == 4)
        more = LiveTopic(live.bootstrap, live.topic, live.group)
        more.produce(0, 0, 0, 120)
        metered.clock.advance(10.0)
        reading = await metered.until(lambda r: len(r.partition_lags) == 4 and healthy(r))

    assert reading.partition_lags == (0, 0, 0, 120)
    assert 0 < reading.rate_per_s <= 120 / 10, "spread over the time since it was not there, no burst"


async def test_offsets_reset_by_an_operator_are_dated_by_asking_the_broker(live: LiveTopic) -> None:
    now_s = time.time()
    for minutes in range(60, 0, -1):
        live.produce(1, at_s=now_s - 60 * minutes)
    live.commit({0: 60, 1: 0})
    async with Metered(live) as metered:
        assert (await metered.read()).lag == 0
        live.commit({0: 20})  # as `kafka-consumer-groups --reset-offsets` does

        reading = await metered.read()

    assert reading.lag == 40
    assert reading.lag_s == pytest.approx(40 * 60, abs=30)
    assert reading.degraded == ""


async def test_commits_can_be_altered_through_the_admin_interface_too(
    live: LiveTopic, kafka: KafkaUnderTest
) -> None:
    live.produce(100)
    live.commit({0: 100})
    async with Metered(live) as metered:
        await metered.read()
        admin = kafka.admin()
        wanted = ConsumerGroupTopicPartitions(live.group, [TopicPartition(live.topic, 0, 1)])
        admin.alter_consumer_group_offsets([wanted])[live.group].result(30)

        reading = await metered.read()

    assert reading.partition_lags[0] == 99
    assert reading.trained_per_s >= 0


async def test_records_that_were_old_when_they_arrived_are_old_by_event_time_alone(live: LiveTopic) -> None:
    live.commit({0: 0, 1: 0})
    async with Metered(live) as metered:
        await metered.read()
        live.produce(10, at_s=metered.clock.now_s() - 3600.0)

        reading = await metered.read(31.0)

        assert reading.lag == 10
        assert reading.lag_s <= 32.0
        assert metered.meter.figures().event_age_s == pytest.approx(3631.0, abs=2.0)


async def test_the_past_is_rebuilt_from_the_broker(live: LiveTopic) -> None:
    now_s = time.time() // 60 * 60 + 30
    for minute in range(180, 0, -1):
        live.produce(6 + minute % 3, 6, at_s=now_s - 60 * minute)
    rates = RateHistory(step_s=60.0)

    for piece in past_of_topic(live.client, live.topic, now_s=now_s, terms=BackfillTerms(days=1)):
        rates.seed(piece.history)

    past = rates.history()
    assert past.span_s == pytest.approx(180 * 60, abs=240)
    middles = past.start_s + 30 + 60 * np.arange(len(past.rates))
    expected = (12 + np.round((now_s - middles) / 60) % 3) / 60
    assert np.median(np.abs(past.rates - expected)) < 1e-6


async def test_a_new_meter_has_the_past_in_the_background(live: LiveTopic) -> None:
    now_s = time.time()
    for minute in range(120, 0, -1):
        live.produce(6, 6, at_s=now_s - 60 * minute)
    async with Metered(live, step_s=60.0, backfill=BackfillTerms(days=1)) as metered:
        await metered.read()

        await eventually_async(lambda: metered.meter.figures().backfilled == 1.0, within_s=60)

        past = metered.meter.history()
    assert past.known >= 115
    assert np.nanmedian(past.rates) == pytest.approx(12 / 60)


async def test_a_record_dated_in_the_future_does_not_silence_the_past(live: LiveTopic) -> None:
    now_s = time.time()
    for minute in range(60, 0, -1):
        if minute == 30:
            live.produce(1, at_s=now_s + 86_400.0)
        live.produce(6, at_s=now_s - 60 * minute)
    rates = RateHistory(step_s=60.0)

    for piece in past_of_topic(live.client, live.topic, now_s=now_s, terms=BackfillTerms(days=1)):
        rates.seed(piece.history)

    assert 0 not in rates.history().rates, "a gap, not silence"
    assert rates.history().known >= 25
