"""Forecasters of a backtest."""

from __future__ import annotations

import numpy as np
import pytest

from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory
from services.simulator.errors import SimulationError
from services.simulator.forecasters import Remembered, ServedOnPrefix, forecaster_named
from tests.simulator.making import a_day


def history(minutes: int) -> TrafficHistory:
    return TrafficHistory(start_s=0.0, step_s=60.0, rates=a_day(minutes=3 * 1440)[:minutes])


def test_served_learns_from_the_prefix_alone() -> None:
    def said(minutes: int) -> Forecast:
        return ServedOnPrefix().forecast(history(minutes), horizon_s=1800.0)

    assert np.array_equal(said(2 * 1440).paths, said(2 * 1440).paths)
    assert said(2 * 1440).issued_at_s == 2 * 86_400.0


def test_served_speaks_before_it_could_learn() -> None:
    assert ServedOnPrefix().forecast(history(20), horizon_s=600.0).horizon_s == 600.0


def test_a_bin_is_thought_of_once_however_many_ask() -> None:
    asked = []

    class Counting:
        name = "counting"

        def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
            asked.append(history.end_s)
            return forecaster_named("light").forecast(history, horizon_s=horizon_s)

    remembered = Remembered(Counting())
    for _ in range(3):
        remembered.forecast(history(100), horizon_s=600.0)

    assert asked == [6000.0]


def test_a_forecaster_that_there_is_not_is_named() -> None:
    with pytest.raises(SimulationError, match="crystal"):
        forecaster_named("crystal")
