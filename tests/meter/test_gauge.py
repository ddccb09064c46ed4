"""What polls come to: nothing that is missing reads as zero, nothing that returns reads as a burst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.meter.gauge import Gauged, TopicGauge
from services.meter.poll import UNKNOWN, OffsetPoll


@dataclass
class World:
    """A topic whose every offset is known to the test."""

    ends: list[int]
    gauge: TopicGauge = field(default_factory=TopicGauge)
    starts: list[int] = field(default_factory=list)
    progress: dict[int, int] | None = field(default_factory=dict)
    stable: list[int] | None = None
    topic_id: str = "first"
    at_s: float = 0.0

    def __post_init__(self) -> None:
        self.starts = self.starts or [0] * len(self.ends)

    def produce(self, *counts: int) -> None:
        self.ends = [end + count for end, count in zip(self.ends, counts, strict=True)]

    def poll(self, after_s: float = 1.0, *, missing: tuple[int, ...] = ()) -> Gauged:
        self.at_s += after_s

        def told(offsets: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
            return np.array([UNKNOWN if p in missing else o for p, o in enumerate(offsets)], dtype=np.int64)

        return self.gauge.take(
            OffsetPoll(
                at_s=self.at_s,
                ends=told(self.ends),
                stable=told(self.stable or self.ends),
                starts=told(self.starts),
                topic_id=self.topic_id,
                layout_at_s=self.at_s - 0.5,
                errors={"no leader": len(missing)} if missing else {},
            ),
            None if self.progress is None else dict(self.progress),
        )

    def run(self, seconds: int, *counts: int, missing: tuple[int, ...] = ()) -> Gauged:
        seen = None
        for _ in range(seconds):
            self.produce(*counts)
            seen = self.poll(missing=missing)
        assert seen is not None
        return seen


def test_one_poll_tells_no_rate_and_two_do() -> None:
    world = World([0, 0])
    world.poll()
    assert not world.gauge.ready

    world.produce(10, 30)
    seen = world.poll()

    assert world.gauge.ready
    assert seen.rates.tolist() == [10.0, 30.0]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 1000), min_size=3, max_size=3),
            st.sets(st.integers(0, 2)),
            st.floats(0.2, 40),
            st.lists(st.integers(0, 3000), min_size=3, max_size=3),
        ),
        max_size=25,
    )
)
def test_rates_lags_and_losses_are_never_negative_and_never_beyond_what_came(
    ticks: list[tuple[list[int], set[int], float, list[int]]],
) -> None:
    world = World([0, 0, 0])
    world.poll()
    came = 0
    for counts, missing, after_s, reached in ticks:
        world.produce(*counts)
        came += sum(counts)
        world.progress = {p: min(r, world.ends[p]) for p, r in enumerate(reached)}
        seen = world.poll(after_s, missing=tuple(missing))

        assert np.all(np.nan_to_num(seen.rates) >= 0)
        assert np.nansum(seen.rates) * 0.2 <= came + 1e-6
        assert np.all(seen.lags >= 0)
        assert seen.lags.sum() <= came
        assert seen.lag_s >= 0
        assert seen.lost == 0
        assert seen.trained_per_s >= 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0.2, 5)), min_size=1, max_size=30))
def test_arrivals_add_up_to_what_was_produced(ticks: list[tuple[int, float]]) -> None:
    world = World([1000])
    world.poll()
    arrived = 0.0
    for count, after_s in ticks:
        world.produce(count)
        arrived += world.poll(after_s).arrived

    assert arrived == pytest.approx(sum(count for count, _ in ticks), abs=1e-6)


def test_a_partition_that_does_not_answer_keeps_its_rate_and_the_reading_says_so() -> None:
    world = World([0, 0])
    world.run(15, 100, 100)

    seen = world.run(5, 100, 0, missing=(1,))

    assert seen.rates.tolist() == pytest.approx([100.0, 100.0])
    assert seen.arrived == pytest.approx(200.0)
    assert seen.notes == ("1 partitions: no leader",)


def test_its_return_is_not_a_burst() -> None:
    world = World([0, 0])
    world.run(15, 100, 100)
    world.run(30, 100, 100, missing=(1,))  # what comes meanwhile is only seen afterwards

    seen = world.run(1, 100, 100)

    assert seen.rates.tolist() == pytest.approx([100.0, 100.0])
    assert seen.arrived == pytest.approx(200.0)


def test_a_reading_is_as_old_as_the_values_that_carry_it() -> None:
    world = World([0, 0])
    before = world.run(15, 100, 100)
    half_held = world.run(5, 100, 100, missing=(1,))
    assert half_held.as_of_s == before.polled_at_s, "half the traffic is not known since"

    quiet = World([0, 0])
    quiet.run(15, 100, 1)
    little_held = quiet.run(5, 100, 1, missing=(1,))
    assert little_held.as_of_s == little_held.polled_at_s, "a hundredth of it does not make the rest old"


def test_partitions_added_while_running_count_from_zero_and_from_their_listing() -> None:
    world = World([0])
    world.run(15, 100)
    world.ends, world.starts = [world.ends[0] + 200, 300], [0, 0]

    seen = world.poll(2.0)

    assert seen.rates[0] == pytest.approx(100.0)
    assert seen.rates[1] == pytest.approx(300 / 2.5), "it was not there at the last listing, 2.5 s ago"
    assert world.run(12, 100, 50).rates.tolist() == pytest.approx([100.0, 50.0])


def test_a_topic_made_anew_is_told_by_its_id_even_when_its_offsets_are_larger() -> None:
    world = World([0])
    world.progress = {}
    world.run(15, 100)
    world.topic_id, world.ends = "second", [10_000]

    seen = world.poll(1.0)

    assert seen.rates.tolist() == pytest.approx([10_000 / 1.5]), "all of it came since the last listing"
    assert seen.lost == 1500, "what was not trained went with the old topic"
    assert seen.lags.tolist() == [10_000]


def test_a_topic_made_anew_with_smaller_offsets_gives_no_negative_rate() -> None:
    world = World([5000])
    world.run(15, 100)
    world.topic_id, world.ends = "second", [30]

    seen = world.poll(1.0)

    assert seen.rates.tolist() == pytest.approx([30 / 1.5])


def test_an_end_that_moves_back_without_a_new_id_holds_the_rate() -> None:
    world = World([5000], topic_id="")
    world.run(15, 100)
    world.ends = [4000]

    seen = world.poll()

    assert seen.rates.tolist() == pytest.approx([100.0])
    assert "1 partitions: the end moved back" in seen.notes
    after = world.run(12, 70)
    assert after.rates.tolist() == pytest.approx([70.0])
    assert after.notes == ()


def test_an_open_transaction_is_traffic_but_not_lag_and_its_end_is_no_burst() -> None:
    world = World([0])
    world.progress = {0: 0}
    world.stable = [0]
    open_ = world.run(15, 100)
    assert open_.rates.tolist() == pytest.approx([100.0])
    assert open_.lags.tolist() == [0]

    world.stable = None
    closed = world.run(1, 100)

    assert closed.rates.tolist() == pytest.approx([100.0])
    assert closed.lags.tolist() == [1600]


def test_what_retention_deleted_is_lost_and_not_lag() -> None:
    world = World([1000], progress={0: 200})
    world.run(3, 10)
    world.starts = [600]

    world.poll()
    seen = world.poll()

    assert seen.lags.tolist() == [1030 - 600]
    assert seen.lost == 400


def test_lost_samples_are_counted_once() -> None:
    world = World([1000], progress={0: 200})
    world.starts = [600]
    assert world.run(5, 0).lost == 400

    world.starts = [700]
    assert world.run(5, 0).lost == 500


def test_deleting_what_was_trained_loses_nothing() -> None:
    world = World([1000], progress={0: 800})
    world.starts = [800]
    world.poll()

    assert world.poll().lost == 0


def test_passing_over_deleted_samples_is_not_training_them() -> None:
    world = World([1000], progress={0: 200})
    world.run(15, 0)
    world.starts = [600]
    world.poll()
    world.progress = {0: 650}

    seen = world.poll()

    assert seen.trained_per_s * 10 == pytest.approx(50, rel=0.1)


@pytest.mark.parametrize(("uncommitted", "lag"), [("earliest", 900), ("latest", 0)])
def test_a_group_that_never_committed_stands_where_it_would_start(uncommitted: str, lag: int) -> None:
    gauge = TopicGauge(uncommitted=uncommitted)  # type: ignore[arg-type]
    world = World([1000], gauge=gauge, starts=[100])
    assert world.poll().lags.sum() == lag

    assert world.run(1, 50).lags.sum() == lag + 50


def test_a_topic_that_nobody_trains_has_traffic_and_no_lag() -> None:
    world = World([1000], gauge=TopicGauge(uncommitted="end"))

    seen = world.run(700, 50)

    assert (seen.lags.sum(), seen.lag_s, seen.trained_per_s, seen.lost) == (0, 0.0, 0.0, 0)
    assert seen.rates.tolist() == pytest.approx([50.0])
    assert len(world.gauge.points) <= 700, "and no points are kept for it"


def test_commits_moved_back_by_an_operator_are_lag_and_not_negative_training() -> None:
    world = World([1000], progress={0: 900})
    world.run(5, 0)
    world.progress = {0: 300}

    seen = world.poll()

    assert seen.lags.tolist() == [700]
    assert seen.trained_per_s == 0.0
    world.progress = {0: 400}
    assert world.poll().trained_per_s == pytest.approx(100 / 6)


def test_progress_beyond_the_end_is_not_believed() -> None:
    world = World([100], progress={0: 5000})
    world.poll()

    seen = world.run(1, 0)

    assert seen.lags.tolist() == [100]
    assert "progress lies beyond the end of 1 partitions" in seen.notes


def test_progress_that_cannot_be_read_holds_the_lag_and_its_time() -> None:
    world = World([0], progress={0: 0})
    before = world.run(5, 10)
    world.progress = None

    seen = world.run(20, 10)

    assert seen.lags.tolist() == before.lags.tolist()
    assert seen.lag_s == before.lag_s
    assert seen.as_of_s == before.polled_at_s
    assert seen.rates.tolist() == pytest.approx([10.0]), "the rate is as fresh as ever"


def test_a_long_pause_between_polls_is_an_average_and_no_gap_in_the_count() -> None:
    world = World([0])
    world.run(15, 100)
    world.produce(100 * 40)

    seen = world.poll(40.0)

    assert seen.rates.tolist() == pytest.approx([100.0])
    assert seen.arrived == pytest.approx(4000)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 59), st.integers(1, 200))
def test_time_lag_is_right_to_one_tick(behind_s: int, rate: int) -> None:
    world = World([0])
    seen = world.poll()
    for _ in range(60):
        world.produce(rate)
        world.progress = {0: max(0, world.ends[0] - behind_s * rate)}
        seen = world.poll()

    assert seen.lag_s == pytest.approx(behind_s, abs=1.0)


def test_time_lag_is_that_of_the_partition_most_behind() -> None:
    world = World([0, 0])
    seen = world.poll()
    for _ in range(30):
        world.produce(10, 10)
        world.progress = {0: world.ends[0], 1: max(0, world.ends[1] - 200)}
        seen = world.poll()

    assert seen.lag_s == pytest.approx(20, abs=1.0)


def test_samples_from_before_the_meter_are_doubted_until_dated() -> None:
    world = World([500], progress={0: 100})
    world.poll()
    seen = world.run(3, 10)

    [doubt] = world.gauge.doubts(limit=10)

    assert (doubt.partition, doubt.offset, doubt.after_s) == (0, 100, -np.inf)
    assert seen.lag_s == pytest.approx(3.0), "at least this old"
    world.gauge.hint(replace(doubt, after_s=-600.0, before_s=-599.0))
    assert world.gauge.lag_s() == pytest.approx(604, abs=1.0)
    assert world.gauge.doubts(limit=10) == []


def test_a_gap_in_the_polls_is_doubted_only_where_the_oldest_sample_may_lie() -> None:
    world = World([0, 0], progress={0: 0, 1: 0})
    world.poll()
    world.run(5, 10, 10)
    world.produce(1000, 1000)
    world.poll(300.0)
    world.progress = {0: 500, 1: 20}  # 0 is in the gap, 1 before it and older
    world.poll()
    assert world.gauge.doubts(limit=10) == []

    world.progress = {0: 500, 1: 700}
    world.poll()
    assert {doubt.partition for doubt in world.gauge.doubts(limit=10)} == {0, 1}


def progress_of(world: World) -> Mapping[int, int]:
    assert world.progress is not None
    return world.progress


@settings(deadline=None)
@given(st.data())
def test_lag_is_the_sum_over_partitions_of_end_minus_position(data: st.DataObject) -> None:
    partitions = data.draw(st.integers(1, 6))
    ends = [data.draw(st.integers(0, 1000)) for _ in range(partitions)]
    starts = [data.draw(st.integers(0, end)) for end in ends]
    world = World(ends, starts=list(starts))
    world.progress = {
        p: data.draw(st.integers(0, end)) for p, end in enumerate(ends) if data.draw(st.booleans())
    }
    seen = world.poll()

    expected = [end - max(starts[p], progress_of(world).get(p, 0)) for p, end in enumerate(ends)]
    assert seen.lags.tolist() == expected
