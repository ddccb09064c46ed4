"""The synthetic day is one series: past and future from the same seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.errors import InvalidTraffic
from services.traffic.shape import (
    DAY_S,
    MONDAY_S,
    WEEK_S,
    FlashCrowd,
    SyntheticTraffic,
    counted,
    played,
)

instants = st.floats(0, 4e9, allow_nan=False)
seeds = st.integers(0, 2**31)


@settings(deadline=None)
@given(seeds, st.lists(instants, min_size=1, max_size=20), st.floats(0, 3), st.floats(0, 0.5))
def test_rates_are_finite_and_never_negative(
    seed: int, at_s: list[float], diurnal: float, noise: float
) -> None:
    shape = SyntheticTraffic(seed=seed, diurnal=diurnal, noise=noise)

    rates = shape.rates(np.array(at_s))

    assert np.all(np.isfinite(rates))
    assert np.all(rates >= 0)


@settings(deadline=None)
@given(seeds, st.lists(instants, min_size=1, max_size=20))
def test_an_instant_has_one_rate_however_it_is_asked_for(seed: int, at_s: list[float]) -> None:
    shape = SyntheticTraffic(seed=seed)

    together = shape.rates(np.array(at_s))

    assert [shape.rate_per_s(instant) for instant in at_s] == together.tolist()


def test_another_seed_is_another_noise() -> None:
    at_s = MONDAY_S + np.arange(0.0, DAY_S, 60.0)
    one, two = (SyntheticTraffic(seed=seed, diurnal=0, weekly=0).rates(at_s) for seed in (1, 2))

    assert abs(np.corrcoef(one, two)[0, 1]) < 0.3


def test_noise_is_autocorrelated_and_as_large_as_asked() -> None:
    at_s = np.arange(0.0, 28 * DAY_S, 60.0)
    noise = np.log(SyntheticTraffic(mean_per_s=1.0, diurnal=0, weekly=0, noise=0.1).rates(at_s))

    assert noise.std() == pytest.approx(0.1, rel=0.1)
    assert np.corrcoef(noise[:-1], noise[1:])[0, 1] > 0.7
    assert abs(np.corrcoef(noise[:-1440], noise[1440:])[0, 1]) < 0.2, "days must not repeat each other"


def test_the_mean_of_a_week_is_the_mean_asked_for() -> None:
    week = MONDAY_S + np.arange(0.0, WEEK_S, 300.0)

    assert SyntheticTraffic(mean_per_s=250.0, noise=0).rates(week).mean() == pytest.approx(250.0, rel=1e-6)


def test_weekends_are_quieter_and_evenings_busier() -> None:
    shape = SyntheticTraffic(noise=0)
    evening, morning = MONDAY_S + 20 * 3600, MONDAY_S + 8 * 3600

    assert shape.rate_per_s(evening) > 2 * shape.rate_per_s(morning)
    assert shape.rate_per_s(evening + 5 * DAY_S) < shape.rate_per_s(evening)


def test_a_flash_crowd_rises_to_its_height_and_ebbs_away() -> None:
    crowd = FlashCrowd(start_s=1000.0, height=3.0, rise_s=10.0, fall_s=100.0)
    lift = crowd.lift(np.array([1000.0, 1010.0, 1110.0, 2000.0]))

    assert lift[0] == 0
    assert lift[1] == 3.0
    assert lift[2] == pytest.approx(3.0 / math.e)
    assert lift[3] < 0.001


def test_history_is_the_same_series_as_the_traffic_to_come() -> None:
    shape = SyntheticTraffic(seed=9)
    now_s = MONDAY_S + 10 * DAY_S

    past = shape.history(until_s=now_s, step_s=300.0, days=7)

    assert past.end_s == now_s
    assert len(past.rates) == 7 * 288
    last_bin = shape.rates(np.arange(now_s - 300.0, now_s))
    assert past.rates[-1] == pytest.approx(last_bin.mean(), rel=0.002), "a mean, as a meter tells"


def test_a_counted_past_scatters_as_samples_do() -> None:
    steady = SyntheticTraffic(50.0, diurnal=0.0, weekly=0.0, noise=0.0).history(
        until_s=MONDAY_S, step_s=2.0, days=1
    )

    seen = counted(steady, seed=3)

    samples = seen.rates * seen.step_s
    assert (samples == samples.round()).all()
    assert samples.mean() == pytest.approx(100.0, rel=0.01)
    assert samples.var() == pytest.approx(100.0, rel=0.05)
    assert np.array_equal(seen.rates, counted(steady, seed=3).rates)


def test_a_past_played_faster_ends_now_with_the_same_rates() -> None:
    past = SyntheticTraffic().history(until_s=MONDAY_S, step_s=300.0, days=1)

    faster = played(past, speed_up=144.0, end_s=5000.0)

    assert faster.end_s == pytest.approx(5000.0)
    assert faster.span_s == pytest.approx(600.0)
    assert np.array_equal(faster.rates, past.rates)


@pytest.mark.parametrize(
    "build",
    [
        lambda: SyntheticTraffic(mean_per_s=-1.0),
        lambda: SyntheticTraffic(mean_per_s=math.nan),
        lambda: SyntheticTraffic(noise=-0.1),
        lambda: FlashCrowd(0.0, height=-1.0),
        lambda: FlashCrowd(0.0, height=1.0, rise_s=0.0),
    ],
)
def test_shapes_that_cannot_be_are_refused(build: object) -> None:
    with pytest.raises(InvalidTraffic):
        build()  # type: ignore[operator]
