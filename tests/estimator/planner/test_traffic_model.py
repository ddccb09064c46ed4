"""The planner's own forecast."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from estimator.planner import traffic_model
from estimator.planner.features import Floats
from estimator.planner.futures import futures_of
from estimator.planner.timing import Timing
from estimator.planner.traffic_model import TrafficModel, fit
from tests.estimator.planner.histories import daily

TIMING = Timing(lead_time_s=180.0, slo_s=60.0, bin_s=60.0)


def fitted(rates: Floats) -> TrafficModel:
    known = fit(rates, timing=TIMING, season=1440)
    assert known is not None
    return known


@pytest.fixture(scope="module")
def model() -> TrafficModel:
    return fitted(daily(4.0))


def test_too_little_history_gives_no_model() -> None:
    assert fit(daily(1.0)[:50], timing=TIMING, season=1440) is None


@pytest.mark.parametrize(("bins", "longest"), [(53, 8), (100, 16), (200, 32), (400, 64)])
def test_a_young_job_has_a_model_within_the_hour_and_looks_back_further_as_it_ages(
    bins: int, longest: int
) -> None:
    young = fit(daily(1.0)[:bins], timing=TIMING, season=1440)

    assert young is not None
    assert young.shape.longest == longest


def test_what_lies_far_ahead_takes_more_rows_to_learn_than_a_young_job_has() -> None:
    slow = Timing(lead_time_s=40 * 60.0, slo_s=60.0, bin_s=60.0)

    assert fit(daily(1.0)[:200], timing=TIMING, season=1440) is not None
    assert fit(daily(1.0)[:200], timing=slow, season=1440) is None


def test_few_rows_make_it_less_sure_than_their_own_errors() -> None:
    """A dozen weights fitted to thirty rows of noise explain a third of it, and nothing of what comes."""
    dice = np.random.default_rng(1)
    expected, found = [], []
    for _ in range(60):
        rates = 1000.0 * np.exp(0.1 * dice.standard_normal(53 + TIMING.lead))
        young = fit(rates[:53], timing=TIMING, season=1440)
        assert young is not None
        outlook, at = young.outlook(young.recent(rates[:53])), TIMING.lead - 1
        spread = np.average(young.errors[:, at] ** 2, weights=young.chances)
        expected.append(outlook.volatility**2 * spread)
        found.append((outlook.ahead[at] - np.log(rates[-1] + young.quiet)) ** 2)

    assert np.sqrt(np.mean(expected) / np.mean(found)) > 0.9


def test_a_young_model_sees_a_rise_go_on() -> None:
    rates = (
        1000.0 * np.exp(0.01 * np.arange(60)) * np.exp(0.005 * np.random.default_rng(2).standard_normal(60))
    )
    young = fit(rates, timing=TIMING, season=1440)
    assert young is not None

    said = young.outlook(young.recent(rates)).ahead[TIMING.lead - 1]

    assert said - np.log(rates[-1] + young.quiet) == pytest.approx(0.03, abs=0.015)


def test_traffic_that_never_was_gives_no_model() -> None:
    assert fit(np.zeros(5000), timing=TIMING, season=1440) is None


def test_it_foresees_the_rise_of_the_day() -> None:
    rates = daily(6.0, noise=0.001)
    fitted = fit(rates[: 4 * 1440], timing=TIMING, season=1440)
    assert fitted is not None
    said = fitted.outlook(fitted.recent(rates[: 4 * 1440])).ahead

    came = np.log(rates[4 * 1440 : 4 * 1440 + len(said)] + fitted.quiet)
    stayed = np.log(rates[4 * 1440 - 1] + fitted.quiet)

    assert np.abs(said - came).mean() < 0.3 * np.abs(stayed - came).mean()


def test_its_errors_stand_for_all_chances(model: TrafficModel) -> None:
    assert model.chances.sum() == pytest.approx(1.0)
    assert np.average(model.errors[:, TIMING.lead - 1] ** 2, weights=model.chances) == pytest.approx(
        1, rel=0.5
    )
    assert model.chances.min() < 0.001, "the tail has paths of its own"


def test_a_gap_is_not_zero_traffic(model: TrafficModel) -> None:
    rates = daily(4.0)
    rates[-5:] = np.nan

    assert model.outlook(model.recent(rates)).ahead[0] == pytest.approx(np.log(1000.0), abs=0.1)


@pytest.mark.parametrize("days", [1.0, 2.0, 5.0])
def test_a_gap_of_days_does_not_make_it_surer_than_it_was(days: float) -> None:
    """Nothing that it could have erred on happened in the gap, a week after nothing either."""
    seen = daily(9.0)
    away = seen.copy()
    away[-round(days * 1440) : -5] = np.nan

    whole, gapped = fitted(seen), fitted(away)

    assert gapped.spread[0] > 0.5 * whole.spread[0]
    assert gapped.outlook(gapped.recent(away)).volatility > 0.5 * whole.outlook(whole.recent(seen)).volatility


def test_a_short_outage_is_not_a_quiet_future(model: TrafficModel) -> None:
    rates = daily(4.0)
    rates[-6:] = 0.0

    assert np.exp(model.outlook(model.recent(rates)).ahead).min() > 700.0


def test_what_stays_low_is_believed(model: TrafficModel) -> None:
    rates = daily(4.0)
    rates[-60:] = 100.0

    assert np.exp(model.outlook(model.recent(rates)).ahead).max() < 200.0


def test_it_is_less_sure_after_surprises_where_surprises_come_in_bouts() -> None:
    hours = np.repeat(np.random.default_rng(3).choice([0.01, 0.2], 96), 60)
    rates = daily(4.0, noise=0.0) * np.exp(hours * np.random.default_rng(2).standard_normal(len(hours)))
    model = fit(rates, timing=TIMING, season=1440)
    assert model is not None
    calm, wild = rates.copy(), rates.copy()
    calm[-60:] = daily(4.0, noise=0.01)[-60:]
    wild[-60:] = daily(4.0, noise=0.2)[-60:]

    assert model.outlook(model.recent(wild)).volatility > 1.5 * model.outlook(model.recent(calm)).volatility


def test_a_usual_wobble_is_believed_only_in_part(model: TrafficModel) -> None:
    recent = model.recent(daily(4.0))
    before = model.outlook(recent)
    level = float(np.exp(before.ahead[0]))

    after = model.outlook(recent, 1.03 * level)

    assert np.exp(after.ahead[1]) < 1.02 * level


def test_days_of_another_length_are_learned_as_well() -> None:
    timing = Timing(lead_time_s=5.0, slo_s=10.0, bin_s=2.0)
    minutes = np.arange(2000)
    rates = 1000 + 500 * np.sin(2 * np.pi * minutes / 288)

    fitted = fit(rates, timing=timing, season=288)

    assert fitted is not None
    assert fitted.shape.seasons == (288,)


def with_silent_nights(days: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Ten hours of work, half an hour to begin and to end, and nothing at all between them."""
    hours = np.arange(days * 1440) / 60 % 24
    open_ = np.clip(np.minimum(hours - 8, 18 - hours) * 2, 0, 1)
    jitter = np.random.default_rng(4).normal(0.0, 0.05, len(hours))
    return np.asarray(1000 * open_ * np.exp(jitter))


def mornings_at_any_time(days: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """All at once, within half an hour of eight; until six, and nothing at all after that."""
    draw = np.random.default_rng(0)
    hours = np.arange(days * 1440) / 60 % 24
    opens = np.repeat(8 + draw.uniform(-0.5, 0.5, days), 1440)
    return np.asarray(1000 * ((hours > opens) & (hours < 18)) * np.exp(draw.normal(0.0, 0.05, len(hours))))


def test_no_noon_is_planned_for_what_only_mornings_bring() -> None:
    rates = mornings_at_any_time(4)[: -11 * 60]
    model = fit(rates, timing=TIMING, season=1440)
    assert model is not None
    outlook = model.outlook(model.recent(rates))

    likely = futures_of(model, outlook, TIMING, elapsed_s=0.0, live=None)

    assert outlook.volatility * model.errors.max() > 5.0, "in units of volatility a morning is that much"
    assert likely.rates.max() < 2.0 * rates.max()


def test_noons_after_mornings_that_are_alike_are_planned_for_no_more_than_noons_bring() -> None:
    rates = with_silent_nights(5)[: -11 * 60]
    model = fit(rates, timing=TIMING, season=1440)
    assert model is not None

    likely = futures_of(model, model.outlook(model.recent(rates)), TIMING, elapsed_s=0.0, live=None)

    assert likely.rates.max() < 1.5 * rates.max()


def test_nights_that_are_all_noise_do_not_decide_how_days_are_forecast() -> None:
    """By day traffic wanders, and now is the best forecast; by night it is counting noise around a mean."""
    draw = np.random.default_rng(6)
    day = np.arange(6 * 1440) % 1440 >= 480
    wander = np.exp(np.cumsum(draw.normal(0.0, 0.01, len(day))) * 0.5)
    rates = np.where(day, 1000.0 * wander / np.median(wander), draw.poisson(3.0, len(day)))
    train = 5 * 1440

    def error(model: TrafficModel | None) -> float:
        assert model is not None
        errors = []
        for end in range(train + 600, train + 1400, 20):
            ahead = model.outlook(model.recent(rates[:end])).ahead
            errors.append(np.abs(np.exp(ahead) - model.quiet - rates[end : end + len(ahead)]).mean())
        return float(np.mean(errors))

    weighed = error(fit(rates[:train], timing=TIMING, season=1440))
    with patch.object(traffic_model, "_worth", lambda levels, _sigma: np.ones(len(levels))):
        alike = error(fit(rates[:train], timing=TIMING, season=1440))

    assert weighed < 0.95 * alike


def test_mornings_are_learned_though_most_of_the_time_nothing_moves() -> None:
    rates = with_silent_nights(6)
    model = fit(rates[: 5 * 1440], timing=TIMING, season=1440)
    assert model is not None
    opening = 5 * 1440 + 8 * 60 + 10
    said = model.outlook(model.recent(rates[:opening])).ahead

    came = np.log(rates[opening : opening + len(said)] + model.quiet)
    stayed = np.log(rates[opening - 1] + model.quiet)

    assert np.abs(said - came).mean() < 0.5 * np.abs(stayed - came).mean()


def test_what_comes_by_the_clock_is_foreseen_to_the_bin() -> None:
    rates = daily(6.0, noise=0.05)
    on_the_hour = np.arange(len(rates)) % 60 < 3
    rates[on_the_hour] *= 4.0
    model = fit(rates[: 5 * 1440], timing=TIMING, season=1440)
    assert model is not None
    before = 5 * 1440 + 10 * 60 - 2  # two bins before the hour
    said = np.exp(model.outlook(model.recent(rates[:before])).ahead)

    assert said[1] < 1.3 * rates[before - 1]
    assert np.all(said[2:5] > 3.0 * rates[before - 1])
    assert said[5] < 1.6 * rates[before - 1]


def test_a_season_shorter_than_the_forecast_has_no_clock() -> None:
    timing = Timing(lead_time_s=600.0, slo_s=60.0, bin_s=60.0)
    rates = 1000 + 500 * np.sin(2 * np.pi * np.arange(2000) / 12)

    model = fit(rates, timing=timing, season=12)

    assert model is not None
    assert not model.recent(rates).clock.any()
