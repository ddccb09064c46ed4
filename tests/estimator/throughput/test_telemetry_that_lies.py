"""What cannot be true is counted and never learned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.throughput import Lie, ResourceLoad, StepTimes, ThroughputModel, ThroughputWindow, busy_sum
from tests.estimator.throughput.pools import Pool, contended, taught

NAN = float("nan")
POOL = Pool(contended(), demand_s=2e-5)
KNOWN = taught(ThroughputModel.guessed(900.0), [POOL.window(4, 0.8), POOL.window(6, 0.8)])
HONEST = replace(POOL.window(6, 0.8), at_s=1e4)

LIES: list[tuple[Lie, dict[str, Any]]] = [
    (Lie.RATE, {"samples_per_s": NAN}),
    (Lie.RATE, {"samples_per_s": -5000.0}),
    (Lie.RATE, {"samples_per_s": float("inf")}),
    (Lie.RATE, {"samples_per_s": 1e18}),
    (Lie.RATE, {"samples_per_s": 0.0}),
    (Lie.RATE, {"ready": 0}),
    (Lie.WORKERS, {"ready": -3}),
    (Lie.WORKERS, {"ready": 10**9}),
    (Lie.BUSY, {"busy": NAN}),
    (Lie.BUSY, {"busy": -0.1}),
    (Lie.BUSY, {"busy": 0.0}),
    (Lie.BUSY, {"busy": 7.0}),
    (Lie.CLOCK, {"at_s": NAN}),
    (Lie.CLOCK, {"at_s": KNOWN.knowledge.at_s}),
    (Lie.BATCH, {"batch": 0}),
    (Lie.OTHER_GPU, {"gpu_type": "t4"}),
]


@pytest.mark.parametrize(("lie", "change"), LIES, ids=[f"{lie}-{change}" for lie, change in LIES])
def test_a_lie_is_counted_and_changes_nothing_else(lie: Lie, change: dict[str, Any]) -> None:
    after = KNOWN.seen(replace(HONEST, **change))

    assert after.knowledge.lies == {lie: 1}
    assert replace(after.knowledge, lies={}) == KNOWN.knowledge


@pytest.mark.parametrize("busy", [NAN, -0.2, 1.4, 0.0])
def test_a_broken_exporter_of_one_shard_costs_that_shard_alone(busy: float) -> None:
    shards = (ResourceLoad("ps-0", busy), ResourceLoad("ps-1", 0.1))

    after = KNOWN.seen(replace(HONEST, resources=shards)).knowledge

    assert after.lies == {Lie.RESOURCE: 1}
    assert after.rows != KNOWN.knowledge.rows
    assert [line.name for line in after.resources if line.at_s == HONEST.at_s] == ["ps-1"]


@pytest.mark.parametrize(
    "steps",
    [StepTimes(*parts) for parts in ((0.0, 0.0, 0.0), (0.0, NAN, 0.0), (-1.0, 0.1, 0.0), (0.0, 60.0, 0.0))],
)
def test_step_times_that_cannot_be_are_dropped_and_the_rest_is_learned(steps: StepTimes) -> None:
    after = KNOWN.seen(replace(HONEST, steps=steps)).knowledge

    assert after.lies == {Lie.STEP_TIMES: 1}
    assert after.steps == KNOWN.knowledge.steps
    assert after.rows != KNOWN.knowledge.rows


@pytest.mark.parametrize("times", [0.1, 0.5, 2.0, 64.0])
def test_workers_that_count_other_samples_than_kafka_teach_what_the_offsets_say(times: float) -> None:
    full = POOL.window(6, 1.0)
    counted = replace(full, at_s=1e4, samples_per_s=times * full.samples_per_s, saturated=True)

    after = KNOWN.seen(replace(counted, progress_per_s=full.samples_per_s, progress_compares=True))
    told = KNOWN.seen(replace(full, at_s=1e4, busy=None, steps=None, resources=(), saturated=True))

    assert after.knowledge.lies == {Lie.OFFSETS: 1}
    assert after.samples_per_s(6) == told.samples_per_s(6)


@pytest.mark.parametrize("times", [0.1, 0.5, 2.0, 64.0])
def test_what_they_count_while_they_keep_up_teaches_nothing(times: float) -> None:
    honest = HONEST.samples_per_s
    counted = replace(HONEST, samples_per_s=times * honest)

    after = KNOWN.seen(replace(counted, progress_per_s=honest, progress_compares=True)).knowledge

    assert after.lies == {Lie.OFFSETS: 1}
    assert (after.rows, after.fitted) == (KNOWN.knowledge.rows, KNOWN.knowledge.fitted)


@pytest.mark.parametrize("progress", [0.0, NAN, -1.0, float("inf"), 0.8 * HONEST.samples_per_s])
def test_offsets_that_say_nothing_or_nearly_the_same_cost_no_window(progress: float) -> None:
    after = KNOWN.seen(replace(HONEST, progress_per_s=progress, progress_compares=True)).knowledge

    assert after.lies == {}
    assert after.rows != KNOWN.knowledge.rows


@pytest.mark.parametrize("times", [0.3, 3.0])
def test_offsets_committed_in_lumps_contradict_nobody(times: float) -> None:
    lump = replace(HONEST, progress_per_s=times * HONEST.samples_per_s, progress_compares=False)

    assert KNOWN.seen(lump).knowledge.lies == {}


def test_an_idle_pool_is_no_lie_and_teaches_nothing() -> None:
    idle = replace(HONEST, samples_per_s=0.0, busy=0.0, steps=None, resources=())

    after = KNOWN.seen(idle).knowledge

    assert after.lies == {}
    assert (after.rows, after.fitted) == (KNOWN.knowledge.rows, KNOWN.knowledge.fitted)


def test_a_clock_that_was_set_back_does_not_deafen_the_model() -> None:
    far_ahead = KNOWN.seen(replace(HONEST, at_s=1e12))

    after = far_ahead.seen(HONEST)

    assert after.knowledge.rows != far_ahead.knowledge.rows


def test_a_single_absurd_window_moves_a_settled_row_by_a_bounded_amount() -> None:
    settled = taught(ThroughputModel.guessed(900.0), [POOL.window(4, 0.8)], each=60)

    after = settled.seen(replace(POOL.window(4, 0.8), at_s=1e5, samples_per_s=1e9))

    assert after.samples_per_s(4) == pytest.approx(settled.samples_per_s(4), rel=0.01)


def test_workers_that_did_not_report_count_as_the_mean_of_the_others() -> None:
    assert busy_sum([0.5, 0.7], ready=4) == pytest.approx(2.4)
    assert busy_sum([], ready=4) is None


anything = st.one_of(st.floats(), st.sampled_from([0.0, -1.0, NAN, 1.0, 1e-9, 1e9]))
any_window = st.builds(
    ThroughputWindow,
    at_s=anything,
    ready=st.integers(-2, 300),
    samples_per_s=anything,
    busy=st.none() | anything,
    saturated=st.booleans(),
    progress_per_s=st.none() | anything,
    progress_compares=st.booleans(),
    batch=st.none() | st.integers(-1, 10**6),
    steps=st.none() | st.builds(StepTimes, anything, anything, anything),
    resources=st.lists(
        st.builds(ResourceLoad, st.sampled_from(["a", "b"]), anything, st.none() | anything), max_size=3
    ).map(tuple),
    partitions=st.none() | st.integers(0, 100),
)


@given(windows=st.lists(any_window, max_size=12), asked=st.integers(0, 200))
def test_whatever_is_told_c_stays_a_number_and_c_low_below_it(
    windows: list[ThroughputWindow], asked: int
) -> None:
    model = ThroughputModel.guessed(1000.0)
    for window in windows:
        model = model.seen(window)

    assert 0 <= model.low(asked) <= model.samples_per_s(asked) < float("inf")
    assert 0 <= model.workers_for(5000.0, workers_max=64) <= 65
    assert model.confidence in ("low", "medium", "high")
    assert model.binding is not None
