"""LightForecasts: a forecast source that never waits and never raises."""

from __future__ import annotations

import numpy as np

from forecasting.history import TrafficHistory
from services.control.ports import ForecastSource
from services.forecaster.light import LightForecasts
from services.settings.traffic import ForecastSettings


def test_it_is_a_forecast_source_that_says_none_until_something_was_measured() -> None:
    source: ForecastSource = LightForecasts(ForecastSettings())
    gap = np.full(10, np.nan)

    assert source.forecast(TrafficHistory(0.0, 60.0, gap)) is None
    assert source.forecast(TrafficHistory(0.0, 60.0, np.append(gap, 3.0))) is not None


def test_ticks_within_one_bin_get_the_same_forecast() -> None:
    source = LightForecasts(ForecastSettings())
    rates = np.arange(1.0, 50.0)

    first = source.forecast(TrafficHistory(0.0, 60.0, rates))

    assert source.forecast(TrafficHistory(0.0, 60.0, rates)) is first
    assert source.forecast(TrafficHistory(0.0, 60.0, np.append(rates, 5.0))) is not first


def test_the_model_of_the_settings_speaks_when_it_can() -> None:
    week = TrafficHistory(0.0, 600.0, 5 + np.sin(np.arange(7 * 144)))

    def speaker(settings: ForecastSettings) -> str:
        ahead = LightForecasts(settings).forecast(week)
        assert ahead is not None
        return ahead.model

    assert speaker(ForecastSettings(step_s=600.0)) == "seasonal"
    assert speaker(ForecastSettings(step_s=600.0, model="last-value")) == "last-value"
    assert speaker(ForecastSettings(step_s=600.0, season_s=14 * 86_400.0)) == "last-value"


def test_the_burst_after_an_outage_is_no_traffic_to_a_light_model_alone() -> None:
    rates = np.full(400, 20.0)
    rates[-6:-2], rates[-2:] = 0.0, 100.0
    source = LightForecasts(ForecastSettings(step_s=300.0, model="last-value"))

    ahead = source.forecast(TrafficHistory(0.0, 300.0, rates))

    assert ahead is not None
    assert ahead.path(0.5).max() == 20.0
    assert ahead.data_age_s == 0.0
