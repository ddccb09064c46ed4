"""Laws that every forecaster obeys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forecasting.boosting import train_boosting
from forecasting.calendar import Calendar
from forecasting.errors import NotEnoughHistory
from forecasting.fleet import Fleet, Trained
from forecasting.forecast import Forecast
from forecasting.forecaster import FallbackChain, Forecaster
from forecasting.grid import Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.last_value import LastValue, MeanAndMax
from forecasting.learned import FleetModel, Lessons, lessons_from
from forecasting.network import spec_named
from forecasting.network_lessons import Effort
from forecasting.network_training import train_network
from forecasting.perceptron import train_perceptron
from forecasting.regression import train_regression
from forecasting.seasonal import SeasonalNaive
from forecasting.torch_network import runnable
from forecasting.window import train_window
from tests.forecasting.extras import TORCH

STEP_S = 60.0
SEASON = 48
"""Bins of the short season that the laws use."""
GRID = Grid(step_s=STEP_S, horizon_s=20 * STEP_S, season_s=SEASON * STEP_S)


def rhythm(seed: int, *, bins: int = 9 * SEASON, scale: float = 1.0) -> Rates:
    """A rhythm with counting noise, some 600 counts a step."""
    counts = np.random.default_rng(seed).poisson(
        600 * (1.2 + np.sin(2 * np.pi * np.arange(bins) / SEASON)), size=bins
    )
    return np.asarray(counts * scale / STEP_S, dtype=np.float64)


@cache
def lessons() -> Lessons:
    """The rhythm of another seed."""
    past = TrafficHistory(0.0, STEP_S, rhythm(99, bins=30 * SEASON))
    return lessons_from(GRID, {"other": past}, Calendar())


STEPS = 30
"""Of training: the laws hold by construction, however little was learned."""


def _network(name: str) -> FleetModel:
    effort = Effort(steps=STEPS) if name == "patchtst" else Effort(steps=4, batch=16)
    trained = train_network(lessons(), spec_named(name), Calendar(), effort)
    return runnable(trained, GRID, Calendar())


@dataclass(frozen=True)
class Mixed:
    """What is served before anything is trained: the mix of the light models, scored as it goes."""

    name: str = "served"

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        mix = Fleet(Grid(history.step_s, horizon_s, SEASON * STEP_S))
        for bins in (3 * SEASON, 2 * SEASON, SEASON):  # so that there are scores to mix by
            if len(history.rates) > bins and history.known:
                early = replace(history, rates=history.rates[:-bins])
                if early.known:
                    mix.forecast({"topic": early})
        said = mix.forecast({"topic": history})
        if "topic" not in said:
            raise NotEnoughHistory(self.name, have_s=0.0, need_s=history.step_s)
        return said["topic"]


TRAINED: dict[str, Callable[[], FleetModel]] = {
    "regression": lambda: train_regression(lessons()),
    "perceptron": lambda: train_perceptron(lessons(), steps=STEPS),
    "window": lambda: train_window(lessons(), steps=STEPS),
    "steady-window": lambda: train_window(lessons(), name="steady-window", steps=STEPS),
    "shared-window": lambda: train_window(lessons(), name="shared-window", steps=STEPS),
    "patchtst": lambda: _network("patchtst"),
    "boosting": lambda: train_boosting(lessons(), trees=40),
    "nhits": lambda: _network("nhits"),
    "fedformer": lambda: _network("fedformer"),
    "seq2seq": lambda: _network("seq2seq"),
}
LIGHT: dict[str, Forecaster] = {
    "last-value": LastValue(),
    "mean-max": MeanAndMax(),
    "seasonal": SeasonalNaive(season_s=SEASON * STEP_S),
    "chain": FallbackChain((SeasonalNaive(season_s=SEASON * STEP_S), LastValue())),
}
EXTRAS = dict.fromkeys(("nhits", "fedformer", "seq2seq"), TORCH)


@cache
def forecaster(name: str) -> Forecaster:
    """Trained when a test first asks for it."""
    if name == "served":
        return Mixed()
    return LIGHT[name] if name in LIGHT else Trained(TRAINED[name](), GRID)


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> Forecaster:
    return forecaster(request.param)


every_forecaster = pytest.mark.parametrize(
    "model",
    [pytest.param(name, marks=EXTRAS.get(name, ())) for name in (*TRAINED, *LIGHT, "served")],
    indirect=True,
)
modest = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def history_of(rates: Rates) -> TrafficHistory:
    return TrafficHistory(start_s=0.0, step_s=STEP_S, rates=rates)


@st.composite
def any_rates(draw: st.DrawFn) -> Rates:
    """Whatever a meter may have seen: zeros, gaps, jumps by a million, a single sample."""
    rate = st.one_of(st.just(0.0), st.just(float("nan")), st.floats(0, 1e6), st.floats(0, 1e-6))
    pattern = draw(st.lists(rate, min_size=1, max_size=20))
    repeats = draw(st.integers(1, 12))
    return np.array(pattern * repeats)


@every_forecaster
@modest
@given(rates=any_rates(), horizon=st.integers(1, 2 * SEASON))
def test_quantiles_are_ordered_finite_and_not_negative(model: Forecaster, rates: Rates, horizon: int) -> None:
    try:
        ahead = model.forecast(history_of(rates), horizon_s=horizon * STEP_S)
    except NotEnoughHistory:
        return

    assert ahead.paths.shape == (len(ahead.levels), horizon)
    assert np.all(np.isfinite(ahead.paths))
    assert np.all(ahead.paths >= 0)
    assert np.all(np.diff(ahead.paths, axis=0) >= 0)
    assert ahead.peaks is not None
    assert np.all(ahead.peaks >= ahead.paths)
    assert ahead.issued_at_s == len(rates) * STEP_S


@every_forecaster
@pytest.mark.parametrize("factor", [0.1, 7.0, 1000.0])
def test_ten_times_the_traffic_is_ten_times_the_forecast(model: Forecaster, factor: float) -> None:
    one = model.forecast(history_of(rhythm(1)), horizon_s=20 * STEP_S)
    other = model.forecast(history_of(rhythm(1, scale=factor)), horizon_s=20 * STEP_S)

    np.testing.assert_allclose(other.paths, factor * one.paths, rtol=0.05)
    assert one.peaks is not None
    assert other.peaks is not None
    np.testing.assert_allclose(other.peaks, factor * one.peaks, rtol=0.05)


@every_forecaster
def test_the_future_does_not_change_the_forecast(model: Forecaster) -> None:
    past = rhythm(2)
    quiet = np.concatenate([past, np.zeros(SEASON)])
    loud = np.concatenate([past, np.full(SEASON, 1e6)])
    cut = len(past)

    seen = [model.forecast(history_of(whole[:cut]), horizon_s=30 * STEP_S).paths for whole in (quiet, loud)]

    np.testing.assert_array_equal(seen[0], seen[1])


@every_forecaster
def test_the_same_history_gives_the_same_forecast(model: Forecaster) -> None:
    one = model.forecast(history_of(rhythm(3)), horizon_s=30 * STEP_S)
    two = model.forecast(history_of(rhythm(3)), horizon_s=30 * STEP_S)

    np.testing.assert_array_equal(one.paths, two.paths)


@pytest.mark.parametrize("name", [pytest.param(name, marks=EXTRAS.get(name, ())) for name in TRAINED])
def test_the_same_seed_learns_the_same(name: str) -> None:
    again = Trained(TRAINED[name](), GRID)

    one = forecaster(name).forecast(history_of(rhythm(3)), horizon_s=20 * STEP_S)
    two = again.forecast(history_of(rhythm(3)), horizon_s=20 * STEP_S)

    np.testing.assert_allclose(two.paths, one.paths, rtol=1e-6)


@every_forecaster
@pytest.mark.parametrize("rate", [0.0, 0.02, 5.0, 1e7])
def test_constant_in_constant_out(model: Forecaster, rate: float) -> None:
    ahead = model.forecast(history_of(np.full(9 * SEASON, rate)), horizon_s=30 * STEP_S)

    np.testing.assert_allclose(ahead.path(0.5), rate, rtol=0.01)
    assert ahead.path(0.95).max() <= rate * 1.05


@every_forecaster
def test_a_gap_at_the_end_is_told_as_the_age_of_the_data(model: Forecaster) -> None:
    rates = rhythm(4)
    rates[-7:] = np.nan

    assert model.forecast(history_of(rates), horizon_s=STEP_S).data_age_s == 7 * STEP_S


@every_forecaster
def test_nothing_measured_is_not_enough(model: Forecaster) -> None:
    with pytest.raises(NotEnoughHistory):
        model.forecast(history_of(np.full(3 * SEASON, np.nan)), horizon_s=STEP_S)
    with pytest.raises(NotEnoughHistory):
        model.forecast(history_of(np.empty(0)), horizon_s=STEP_S)


@pytest.mark.parametrize("model", LIGHT, indirect=True)
def test_the_upper_quantile_covers_what_comes(model: Forecaster) -> None:
    """On a plain rhythm, 0.95 must mean 95 % within what 200 origins can tell.

    Light models promise it by themselves; for trained ones the selector sees to it.
    """
    rates = rhythm(5, bins=13 * SEASON)
    covered = []
    for origin in range(9 * SEASON, 13 * SEASON - 10, 2):
        ahead = model.forecast(history_of(rates[:origin]), horizon_s=10 * STEP_S)
        covered.append(rates[origin : origin + 10] <= ahead.path(0.95))

    assert 0.90 <= np.mean(covered) <= 0.99
