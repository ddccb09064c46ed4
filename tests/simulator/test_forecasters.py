"""Forecasters of a backtest."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from forecasting.boosting import train_boosting
from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory
from forecasting.network_lessons import Effort
from services.forecaster import lesson
from services.simulator import forecasters
from services.simulator.errors import SimulationError
from services.simulator.forecasters import Remembered, ServedOnPrefix, forecaster_named
from services.simulator.network_on_prefix import NetworkOnPrefix
from tests.forecasting.extras import TORCH
from tests.forecasting.worlds import DAY, GRID, rhythm
from tests.simulator.making import a_day


def history(minutes: int) -> TrafficHistory:
    return TrafficHistory(start_s=0.0, step_s=60.0, rates=a_day(minutes=3 * 1440)[:minutes])


def test_served_learns_from_the_prefix_alone() -> None:
    def said(minutes: int) -> Forecast:
        return ServedOnPrefix().forecast(history(minutes), horizon_s=1800.0)

    assert np.array_equal(said(2 * 1440).paths, said(2 * 1440).paths)
    assert said(2 * 1440).issued_at_s == 2 * 86_400.0


def test_served_covers_what_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasters, "train_boosting", partial(train_boosting, trees=20))
    rates, served, covered = rhythm(4), ServedOnPrefix(), []
    for end in range(2 * DAY, 4 * DAY - 15, 12):
        past = TrafficHistory(start_s=0.0, step_s=GRID.step_s, rates=rates[:end])
        ahead = served.forecast(past, horizon_s=GRID.horizon_s)
        covered.append(rates[end : end + 15] <= ahead.path(0.95)[:15])

    assert 0.88 <= np.mean(covered[12:]) <= 0.995


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


@pytest.mark.parametrize("network", ["patchtst", pytest.param("fedformer", marks=TORCH)])
def test_a_network_speaks_alone_once_there_is_enough_to_learn_from(network: str) -> None:
    alone = NetworkOnPrefix(network, effort=Effort(steps=5, batch=16))

    assert alone.forecast(history(200), horizon_s=1800.0).model == "last-value"
    said = alone.forecast(history(3 * 1440), horizon_s=1800.0)

    assert said.model == alone.name == network
    assert said.horizon_s == 1800.0
    again = NetworkOnPrefix(network, effort=Effort(steps=5, batch=16))
    assert np.array_equal(said.paths, again.forecast(history(3 * 1440), horizon_s=1800.0).paths)


def test_a_network_is_trained_again_from_its_weights_when_that_is_due() -> None:
    trained: list[float] = []
    effort = Effort(steps=50, batch=16, tell=lambda _share, loss: trained.append(loss))
    alone = NetworkOnPrefix("patchtst", effort=effort, retrain_s=3600.0)
    first = alone.forecast(history(2 * 1440), horizon_s=1800.0)
    learned = len(trained)

    alone.forecast(history(2 * 1440 + 30), horizon_s=1800.0)
    assert len(trained) == learned, "not due yet"
    later = alone.forecast(history(2 * 1440 + 60), horizon_s=1800.0)

    assert first.model == later.model == "patchtst"
    assert len(trained) > learned or not np.array_equal(first.paths[:, 0], later.paths[:, 0])


def test_a_network_that_cannot_be_trained_here_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson, "installed", lambda _package: False)

    with pytest.raises(SimulationError, match="penstock\\[forecast\\]"):
        forecaster_named("fedformer")
