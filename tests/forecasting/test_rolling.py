"""The forecaster of simulations: as good as serving, and as blind to the future."""

from __future__ import annotations

import numpy as np

from forecasting.seasonal import SeasonalNaive
from services.forecaster.rolling import RollingForecaster
from tests.forecasting.worlds import DAY, GRID, history, rhythm


def test_it_is_trained_as_history_grows_and_covers_what_comes() -> None:
    rates = rhythm(5)
    model = RollingForecaster(models=("regression",))
    covered = []
    for end in range(2 * DAY, 5 * DAY - 15, 12):
        ahead = model.forecast(history(rates[:end]), horizon_s=GRID.horizon_s)
        covered.append(rates[end : end + 15] <= ahead.path(0.95))

    assert 0.88 <= np.mean(covered[12:]) <= 0.995


def test_it_speaks_before_it_is_trained_and_never_of_the_future() -> None:
    rates = rhythm(4)
    loud = rates.copy()
    loud[3 * DAY :] = 1e6

    said = [
        RollingForecaster(models=("regression",)).forecast(history(series[: 3 * DAY]), horizon_s=4500.0)
        for series in (rates, loud)
    ]

    np.testing.assert_array_equal(said[0].paths, said[1].paths)
    first = RollingForecaster().forecast(history(rates[:3]), horizon_s=4500.0)
    assert first.model == "served"
    assert SeasonalNaive().name not in first.shares or first.shares["seasonal"] == 0
