"""What holds for every throughput model, whatever it has seen."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from estimator.capacity import Capacity
from estimator.throughput import Confidence, ThroughputModel, ThroughputWindow
from tests.estimator.throughput.pools import Pool, contended, taught

modest = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])

curves = st.builds(contended, st.floats(1.0, 1e5), contention=st.floats(0, 0.3), coherency=st.floats(0, 0.01))
pools = st.builds(Pool, curves, demand_s=st.none() | st.floats(1e-9, 1e-6))
seen_at = st.lists(st.tuples(st.integers(1, 40), st.floats(0.1, 1.0)), max_size=8)


@st.composite
def models(draw: st.DrawFn) -> ThroughputModel:
    pool = draw(pools)
    windows = [pool.window(n, load) for n, load in draw(seen_at)]
    return taught(ThroughputModel.guessed(draw(st.floats(1.0, 1e5))), windows, each=draw(st.integers(1, 9)))


@modest
@given(model=models(), workers=st.integers(0, 200))
def test_c_low_is_not_above_c_and_neither_is_negative(model: ThroughputModel, workers: int) -> None:
    assert 0 <= model.low(workers) <= model.samples_per_s(workers) < float("inf")
    assert model.samples_per_s(0) == 0


@modest
@given(model=models(), one=st.floats(0, 1e7), other=st.floats(0, 1e7), most=st.integers(1, 100))
def test_more_traffic_never_means_fewer_workers(
    model: ThroughputModel, one: float, other: float, most: int
) -> None:
    less, more = sorted((one, other))

    assert model.workers_for(less, workers_max=most) <= model.workers_for(more, workers_max=most)


@modest
@given(model=models(), rate=st.floats(0.001, 1e7), most=st.integers(1, 100))
def test_the_workers_answered_carry_the_rate_or_none_does(
    model: ThroughputModel, rate: float, most: int
) -> None:
    answer = model.workers_for(rate, workers_max=most)

    assert 1 <= answer <= most + 1
    top = min(model.reach() or most, most)
    if answer <= most and model.low(answer) < rate * (1 - 1e-6):
        assert model.low(answer) == pytest.approx(max(model.low(n) for n in range(1, top + 1)))
    elif answer <= most and answer > 1:
        assert model.low(answer - 1) < rate


@modest
@given(model=models())
def test_it_survives_a_restart_and_goes_on_as_if_nothing_had_been(model: ThroughputModel) -> None:
    adapter = TypeAdapter(ThroughputModel)
    stored = json.dumps(asdict(model), allow_nan=False)

    again = adapter.validate_json(stored)

    window = replace(Pool(contended()).window(5, 0.7), at_s=1e9)
    assert again == model
    assert again.seen(window) == model.seen(window)


@modest
@given(pool=pools, windows=seen_at)
def test_the_same_windows_give_the_same_model(pool: Pool, windows: list[tuple[int, float]]) -> None:
    shown = [pool.window(n, load) for n, load in windows]

    assert taught(ThroughputModel.guessed(50.0), shown) == taught(ThroughputModel.guessed(50.0), shown)


@modest
@given(pool=pools, workers=st.integers(1, 40), load=st.floats(0.1, 1.0), times=st.integers(1, 60))
def test_one_size_alone_is_never_trusted_highly(pool: Pool, workers: int, load: float, times: int) -> None:
    model = taught(ThroughputModel.guessed(1000.0), [pool.window(workers, load)], each=times)

    assert model.confidence is not Confidence.HIGH


@modest
@given(pool=pools, sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5), factor=st.floats(0.01, 100))
def test_it_does_not_care_in_which_unit_samples_are_counted(
    pool: Pool, sizes: list[int], factor: float
) -> None:
    windows = [replace(pool.window(n), steps=None, resources=()) for n in sizes]
    scaled = [replace(window, samples_per_s=factor * window.samples_per_s) for window in windows]

    one = taught(ThroughputModel.guessed(1000.0), windows)
    other = taught(ThroughputModel.guessed(1000.0 * factor), scaled)

    assert other.samples_per_s(12) == pytest.approx(factor * one.samples_per_s(12), rel=1e-3)


@modest
@given(rate=st.floats(1.0, 1e5), contention=st.floats(0, 0.5), workers=st.integers(0, 60))
def test_before_anything_is_seen_it_is_the_simple_capacity(
    rate: float, contention: float, workers: int
) -> None:
    model = ThroughputModel.guessed(rate, contention=contention)
    simple = Capacity(rate, contention)

    assert model.samples_per_s(workers) == pytest.approx(simple.samples_per_s(workers), rel=1e-3)


def windows_of(sizes: tuple[int, ...]) -> list[ThroughputWindow]:
    return [Pool(contended()).window(n) for n in sizes]


@modest
@given(sizes=st.lists(st.integers(1, 24), min_size=2, max_size=6, unique=True))
def test_a_pool_seen_at_full_load_is_known_at_the_sizes_seen(sizes: list[int]) -> None:
    model = taught(ThroughputModel.guessed(700.0), windows_of(tuple(sizes)), each=16)

    for n in sizes:
        assert model.samples_per_s(n) == pytest.approx(contended()(n), rel=0.02)
