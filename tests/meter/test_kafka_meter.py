"""The meter as the loop sees it: always an answer, never a false one."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from services.control.errors import StateUnavailable, TrafficUnavailable
from services.meter.backfill import BackfillTerms
from services.meter.kafka_meter import KafkaMeter
from services.meter.sources import ThreadedSource
from tests.meter.opened import Open, clock, opened, run, topic
from tests.meter.scripted import ManualClock, ScriptedTopic
from tests.waiting import eventually_async

__all__ = ["clock", "opened", "topic"]


async def test_the_first_reading_already_tells_a_rate(opened: Open) -> None:
    reading = await opened().read()

    assert reading.rate_per_s == pytest.approx(150.0)
    assert reading.partition_rates == pytest.approx((100.0, 50.0))


async def test_a_cluster_that_never_answered_is_an_error_and_not_a_quiet_topic(
    opened: Open, topic: ScriptedTopic
) -> None:
    topic.failing = "no broker answers"

    with pytest.raises(TrafficUnavailable, match="no broker answers"):
        await opened().read()


async def test_a_failing_second_look_does_not_leave_a_zero_behind(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened()

    async def fail_meanwhile(at_s: float) -> None:
        topic.failing = "gone"

    clock.sleep_until = fail_meanwhile  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(TrafficUnavailable, match="gone"):
            await meter.read()


async def test_a_failing_poll_gives_the_last_good_reading_with_its_own_time(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened()
    good = await run(meter, clock, 20)
    topic.failing = "all brokers are down"
    clock.advance(45.0)

    held = await meter.read()

    assert held.rate_per_s == pytest.approx(150.0)
    assert (held.rate_per_s, held.lag, held.lag_s, held.at_s) == (
        good.rate_per_s,
        good.lag,
        good.lag_s,
        good.at_s,
    )
    assert held.degraded == "all brokers are down"
    assert meter.figures().staleness_s == pytest.approx(45.0)


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
async def test_a_held_reading_is_as_old_as_it_is_wherever_the_clock_is_set(
    opened: Open, topic: ScriptedTopic, clock: ManualClock, step_s: float
) -> None:
    meter = opened()
    await run(meter, clock, 20)
    topic.failing = "all brokers are down"
    clock.advance(45.0)
    clock.step(step_s)

    held = await meter.read()

    assert clock.now_s() - held.at_s == pytest.approx(45.0)
    assert meter.figures().staleness_s == pytest.approx(45.0)


async def test_it_recovers_by_itself_and_what_came_meanwhile_is_no_burst(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened()
    topic.keeps_up = True
    await run(meter, clock, 20)
    topic.failing = "down"
    await run(meter, clock, 30)
    topic.failing = ""

    reading = await run(meter, clock, 1)

    assert reading.degraded == ""
    assert reading.rate_per_s == pytest.approx(150.0)


async def test_a_long_outage_is_a_gap_in_the_history(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened(gap_s=30.0)
    await run(meter, clock, 60)
    topic.failing = "down"
    await run(meter, clock, 100)
    topic.failing = ""
    await run(meter, clock, 60)

    rates = meter.history().rates

    assert np.isnan(rates).sum() == pytest.approx(10, abs=1)
    assert rates[~np.isnan(rates)] == pytest.approx(150.0, rel=1e-3)


async def test_a_short_outage_is_none(opened: Open, topic: ScriptedTopic, clock: ManualClock) -> None:
    meter = opened(gap_s=30.0)
    await run(meter, clock, 60)
    topic.failing = "down"
    await run(meter, clock, 20)
    topic.failing = ""
    await run(meter, clock, 60)

    assert meter.history().rates == pytest.approx(150.0, rel=1e-3)


async def test_a_coordinator_that_is_away_holds_the_lag_and_ages_the_reading(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened()
    topic.keeps_up = True
    await run(meter, clock, 20)
    known_at_s = clock.now_s()
    topic.coordinator_failing = "coordinator is not available"
    topic.flow(200, 100)

    reading = await run(meter, clock, 40)

    assert reading.rate_per_s == pytest.approx(300.0)
    assert reading.lag == 0
    assert reading.at_s == pytest.approx(known_at_s)
    assert "coordinator is not available" in reading.degraded


async def test_without_any_progress_there_is_no_first_reading(opened: Open, topic: ScriptedTopic) -> None:
    async def progress() -> dict[int, int]:
        raise StateUnavailable("Redis is away")

    with pytest.raises(TrafficUnavailable, match=r"clicks.*Redis is away"):
        await opened(progress=progress).read()


async def test_polls_never_overlap_even_when_a_read_is_given_up(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened()
    await run(meter, clock, 3)
    topic.gate = threading.Event()
    given_up = asyncio.create_task(meter.read())
    await eventually_async(lambda: topic.polling == 1)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)

    following = asyncio.create_task(meter.read())
    topic.gate.set()
    await following

    assert not topic.overlapped


async def test_readers_at_the_same_time_take_turns(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened()
    await run(meter, clock, 3)
    before = topic.polls

    await asyncio.gather(*(meter.read() for _ in range(5)))

    assert not topic.overlapped
    assert topic.polls == before + 5


@pytest.mark.parametrize("step_s", [-3600.0, -2.0, 7200.0])
async def test_a_clock_that_is_set_changes_neither_rate_nor_lag(
    opened: Open, topic: ScriptedTopic, clock: ManualClock, step_s: float
) -> None:
    meter = opened()
    before = await run(meter, clock, 40)
    clock.step(step_s)

    after = await run(meter, clock, 1)

    assert after.rate_per_s == pytest.approx(before.rate_per_s)
    assert after.lag_s == pytest.approx(before.lag_s + 1.0)
    assert after.at_s == pytest.approx(clock.now_s())
    await run(meter, clock, 30)
    rates = meter.history().rates
    assert rates[~np.isnan(rates)] == pytest.approx(150.0, rel=1e-3)
    assert meter.history().end_s <= clock.now_s()


async def test_a_poll_that_takes_longer_than_the_interval_is_only_slow(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened()
    readings = []
    for _ in range(10):
        clock.advance(17.0)
        readings.append(await meter.read())

    assert [reading.rate_per_s for reading in readings] == pytest.approx([150.0] * 10)
    assert meter.history().rates == pytest.approx(150.0, rel=1e-3)


async def test_its_own_numbers_are_told_for_metrics(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened()
    await run(meter, clock, 20)
    topic.missing = (1,)
    await run(meter, clock, 2)
    topic.failing = "down"
    await meter.read()

    figures = meter.figures()

    assert figures.topic == "clicks"
    assert figures.rate_per_s == pytest.approx(150.0, rel=0.05)
    assert (figures.polls, figures.failed_polls, figures.held_partitions) == (24, 1, 1)
    assert figures.errors == {"no leader": 2, "unavailable": 1}
    assert figures.poll_s == 0.01


async def test_closing_lets_go_of_the_source(clock: ManualClock, topic: ScriptedTopic) -> None:
    source = ThreadedSource(topic, name="test")
    async with KafkaMeter({}, topic="clicks", group="g", clock=clock, source=source):
        pass

    assert topic.closed


async def test_a_meter_whose_turn_to_ask_for_the_past_has_not_come_closes_at_once(
    clock: ManualClock, topic: ScriptedTopic
) -> None:
    turns = asyncio.Semaphore(1)
    await turns.acquire()  # another job's backfill, which may take minutes
    source = ThreadedSource(topic, name="test")
    meter = KafkaMeter(
        {}, topic="clicks", group="g", clock=clock, source=source, elapsed_s=clock.elapsed_s,
        backfill=BackfillTerms(), backfill_turns=turns,
    )  # fmt: skip
    await meter.read()

    await asyncio.wait_for(meter.close(), timeout=20)

    assert meter.figures().backfilled == 0.0
