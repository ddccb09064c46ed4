"""The simplest models: what each says that the other would not."""

from __future__ import annotations

import numpy as np
import pytest

from forecasting.errors import NotEnoughHistory
from forecasting.forecaster import FallbackChain, Forecaster
from forecasting.history import Rates, TrafficHistory
from forecasting.last_value import LastValue, MeanAndMax
from forecasting.seasonal import SeasonalNaive

MINUTE_S = 60.0
DAY = 1440


def minutes(rates: Rates) -> TrafficHistory:
    return TrafficHistory(start_s=0.0, step_s=MINUTE_S, rates=rates)


def days(count: int, *, level: float = 10.0) -> Rates:
    return level * (1.5 + np.sin(2 * np.pi * np.arange(count * DAY) / DAY))


def test_last_value_holds_the_last_measurement_through_a_gap() -> None:
    ahead = LastValue().forecast(minutes(np.array([3.0, 4.0, np.nan])), horizon_s=120.0)

    assert ahead.path(0.5).tolist() == [4.0, 4.0]


@pytest.mark.parametrize("model", [LastValue(), MeanAndMax()])
def test_after_a_gap_of_days_the_last_measurement_is_still_held(model: Forecaster) -> None:
    gap = np.full(3 * DAY, np.nan)

    ahead = model.forecast(minutes(np.concatenate([np.full(DAY, 4.0), gap])), horizon_s=120.0)

    assert ahead.path(0.5).tolist() == [4.0, 4.0]
    assert ahead.path(0.95)[0] > 4.0, "who knows what became of it"
    assert ahead.data_age_s == 3 * 86_400.0


def test_a_single_sample_is_not_believed_to_be_certain() -> None:
    ahead = LastValue().forecast(minutes(np.array([4.0])), horizon_s=60.0)

    assert ahead.path(0.1)[0] < 4.0 < ahead.path(0.95)[0]


def test_last_value_is_less_sure_of_the_far_future() -> None:
    walk = np.abs(100 + np.cumsum(np.random.default_rng(0).normal(size=2 * DAY)))

    band = LastValue().forecast(minutes(walk), horizon_s=3600.0)

    assert band.path(0.95)[-1] - band.path(0.1)[-1] > 3 * (band.path(0.95)[0] - band.path(0.1)[0])


def test_seasonal_repeats_yesterday_at_the_level_of_today() -> None:
    rates = days(3)
    rates[-60:] *= 2.0

    ahead = SeasonalNaive().forecast(minutes(rates), horizon_s=3600.0)

    np.testing.assert_allclose(ahead.path(0.5), 2 * rates[-2 * DAY : -2 * DAY + 60], rtol=0.02)


def test_seasonal_fills_a_gap_of_yesterday_from_the_day_before() -> None:
    rates = days(4)
    rates[3 * DAY : 3 * DAY + 60] = np.nan

    ahead = SeasonalNaive().forecast(minutes(rates), horizon_s=3600.0)

    np.testing.assert_allclose(ahead.path(0.5), rates[:60], rtol=0.02)


def test_silence_yesterday_does_not_silence_today() -> None:
    rates = days(3)
    rates[-2 * DAY : -DAY] = 0.0

    ahead = SeasonalNaive().forecast(minutes(rates), horizon_s=600.0)

    assert ahead.path(0.5).min() > 5.0


def test_a_season_beyond_the_horizon_is_looked_up_in_whole_seasons() -> None:
    pattern = np.tile([1.0, 5.0, 2.0], 20)

    ahead = SeasonalNaive(season_s=180.0).forecast(minutes(pattern), horizon_s=420.0)

    assert ahead.path(0.5).tolist() == [1.0, 5.0, 2.0, 1.0, 5.0, 2.0, 1.0]


def test_seasonal_needs_more_than_a_season() -> None:
    with pytest.raises(NotEnoughHistory, match="seasonal needs 86460 s"):
        SeasonalNaive().forecast(minutes(days(1)), horizon_s=60.0)


def test_the_chain_speaks_through_the_first_model_that_can() -> None:
    chain = FallbackChain((SeasonalNaive(), LastValue()))

    assert chain.forecast(minutes(days(1)), horizon_s=60.0).model == "last-value"
    assert chain.forecast(minutes(days(2)), horizon_s=60.0).model == "seasonal"
