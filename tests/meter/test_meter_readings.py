"""What the meter tells besides rates: progress and ages of samples, late ones, and the past."""

from __future__ import annotations

import numpy as np
import pytest

from forecasting.history import TrafficHistory
from services.meter.archive import MemoryArchive
from shuffler.lease import Progress
from tests.meter.opened import Open, clock, opened, run, topic
from tests.meter.scripted import ManualClock, ScriptedTopic

__all__ = ["clock", "opened", "topic"]


async def test_the_ledgers_progress_replaces_the_groups_commits(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    topic.coordinator_failing = "nobody should have asked"
    trained = {0: 0, 1: 0}

    async def progress() -> dict[int, int]:
        return trained

    meter = opened(progress=progress)
    await run(meter, clock, 5)
    topic.flow(0, 0)
    trained.update({0: topic.ends[0] - 5, 1: topic.ends[1]})

    reading = await run(meter, clock, 1)

    assert reading.partition_lags == (5, 0)


async def test_offsets_are_scaled_to_samples_by_what_the_ledger_found_in_them(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    """Ten-record transactions: eleven offsets for ten samples."""
    topic.flow(1100, 0)

    async def progress() -> Progress:
        done = topic.ends[0]
        return Progress({0: done, 1: 0}, {}, trained=done * 10 // 11, late=0, repeated=0, lost=0, epoch=1)

    meter = opened(progress=progress)
    reading = await run(meter, clock, 60)

    assert reading.rate_per_s == pytest.approx(1000.0, rel=0.02)
    assert reading.trained_per_s == pytest.approx(1000.0, rel=0.02)
    assert meter.figures().records_per_offset == pytest.approx(10 / 11, rel=0.001)


async def test_samples_that_were_given_up_are_told(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    topic.flow(100, 0)

    async def progress() -> Progress:
        given_up = {0: ((3, 5), (9, 10))}
        return Progress({0: 10, 1: 0}, {}, 7, late=0, repeated=0, lost=0, epoch=1, quarantined=given_up)

    reading = await run(opened(progress=progress), clock, 2)

    assert reading.quarantined == 3


async def test_samples_from_before_the_meter_are_dated_by_asking_kafka(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    topic.base, topic.per_s = [100, 0], [0, 0]
    topic.dates_s = [clock.now_s() - 1000.0 + 10 * n for n in range(100)]
    topic.committed = {0: 40}

    reading = await opened().read()

    assert reading.lag_s == pytest.approx(1000.0 - 400.0 + 1.0, abs=1.1)
    assert reading.degraded == ""


async def test_where_kafka_cannot_tell_their_age_the_reading_says_so(
    opened: Open, topic: ScriptedTopic
) -> None:
    topic.base, topic.per_s = [100, 0], [0, 0]

    reading = await opened().read()

    assert reading.lag == 100
    assert "at least" in reading.degraded


async def test_late_samples_are_counted_by_their_arrival_and_outlive_the_meter(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    """Trained forty seconds after arrival, where thirty were promised, then where fifty were."""
    promise_s, archives = 30.0, (MemoryArchive(), MemoryArchive())

    async def progress() -> Progress:
        done = {
            p: max(0, end - 40 * rate)
            for p, (end, rate) in enumerate(zip(topic.ends, (100, 50), strict=True))
        }
        return Progress(done, {}, trained=sum(done.values()), late=0, repeated=0, lost=0, epoch=1)

    settings = {"progress": progress, "fresh_within_s": lambda: promise_s, "late_archives": archives}
    meter = opened(**settings)
    late = await run(meter, clock, 160)
    promise_s = 50.0
    half_late = await run(meter, clock, 120)
    again = await opened(**settings).read()

    assert late.late_share == 1.0
    assert half_late.late_share == pytest.approx(0.5, abs=0.01)
    assert again.late_share == pytest.approx(0.5, abs=0.3), "but for the minute that was not closed"
    assert meter.figures().late == pytest.approx(120 * 150, rel=0.02)


async def test_without_leases_nobody_counts_the_late_ones(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened(fresh_within_s=lambda: 30.0)

    assert (await run(meter, clock, 60)).late_share is None


async def test_the_event_time_age_is_told_apart_from_the_arrivals(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    """Records that were an hour old when they arrived."""
    meter = opened()
    await meter.read()
    topic.dates_s = [clock.now_s() - 3600.0 + n / 100 for n in range(1000)]
    topic.base, topic.per_s, topic.committed = [1000, 0], [0, 0], {0: 0}

    reading = await run(meter, clock, 40)

    assert reading.lag_s <= 45.0
    assert meter.figures().event_age_s == pytest.approx(3600.0 + 40.0, abs=35.0)


async def test_an_event_time_that_kafka_cannot_tell_is_not_zero(
    opened: Open, topic: ScriptedTopic, clock: ManualClock
) -> None:
    meter = opened()
    await run(meter, clock, 3)
    assert meter.figures().event_age_s is None

    topic.keeps_up = True
    await run(meter, clock, 40)
    assert meter.figures().event_age_s == 0.0, "nothing is untrained"


async def test_history_survives_a_restart(opened: Open, topic: ScriptedTopic, clock: ManualClock) -> None:
    archive = MemoryArchive()
    before = opened(archive=archive)
    await run(before, clock, 90)
    clock.advance(5.0)

    after = opened(archive=archive)
    await after.read()

    was, now = before.history(), after.history()
    assert now.start_s == was.start_s
    assert now.rates[: len(was.rates) - 1].tolist() == was.rates[:-1].tolist()


async def test_a_seeded_past_is_there_before_the_first_reading(opened: Open, clock: ManualClock) -> None:
    meter = opened()
    meter.seed(TrafficHistory(start_s=clock.now_s() - 1000.0, step_s=10.0, rates=np.full(100, 7.0)))

    assert meter.history().rates.tolist() == [7.0] * 100
    await meter.read()
    assert meter.history().rates[:100].tolist() == [7.0] * 100
