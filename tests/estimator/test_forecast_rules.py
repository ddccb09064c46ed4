"""Madu and Kale: rules that follow a forecast."""

from __future__ import annotations

import numpy as np

from estimator.reason import Reason
from estimator.rules.kale import KaleMemory, kale
from estimator.rules.madu import Line, MaduMemory, madu
from forecasting.forecast import Forecast
from tests.estimator.seeing import situation


def ahead(rates: list[float], *, high: float = 1.0, issued_at_s: float = 0.0) -> Forecast:
    """A forecast whose 90 % quantile is `high` times its median."""
    path = np.array(rates)
    return Forecast(
        issued_at_s=issued_at_s,
        step_s=60.0,
        paths=np.stack([path, path * high]),
        model="test",
        levels=(0.5, 0.9),
    )


def test_madu_sizes_for_the_mean_and_its_deviations() -> None:
    rule = madu(utilisation=0.8, k=1.2815515655446004)

    calm, _ = rule.size(situation(forecast=ahead([800.0] * 60)), MaduMemory())
    unsure, _ = rule.size(situation(forecast=ahead([800.0] * 60, high=1.5)), MaduMemory())

    assert calm.workers == 10
    assert unsure.workers == 15


def test_madu_sees_no_lag() -> None:
    rule, memory = madu(), MaduMemory()

    without, _ = rule.size(situation(forecast=ahead([320.0] * 60)), memory)
    behind, _ = rule.size(situation(forecast=ahead([320.0] * 60), lag=1e6, lag_s=900.0), memory)

    assert without.workers == behind.workers


def test_madu_learns_usage_as_a_line() -> None:
    line = Line()
    for load in range(10, 60):
        line = line.seen(float(load), 0.1 + load / 100)

    slope, intercept = line.fitted(situation().capacity)

    assert abs(slope - 0.01) < 1e-9
    assert abs(intercept - 0.1) < 1e-9


def test_kale_acts_only_when_the_prediction_stays_at_a_level() -> None:
    rule, memory, sizes = kale(hold_s=300.0), KaleMemory(), []
    for minute in range(7):
        now_s = 60.0 * minute
        seen = situation(now_s=now_s, forecast=ahead([900.0] * 60, issued_at_s=now_s))
        sizing, memory = rule.size(seen, memory)
        sizes.append(sizing.workers)

    assert sizes == [4, 4, 4, 4, 4, 9, 4]  # acts in minute 5; this test does not obey it


def test_kale_is_not_moved_by_a_spike_that_smoothing_removes() -> None:
    spike = [390.0] * 9 + [600.0] + [390.0] * 50

    sizing, _ = kale(smooth_s=1800.0, hold_s=0.0).size(situation(forecast=ahead(spike)), KaleMemory())

    assert sizing.workers == 4


def test_kale_without_a_forecast_holds() -> None:
    sizing, _ = kale().size(situation(forecast=None), KaleMemory())

    assert (sizing.workers, sizing.reason) == (4, Reason.NO_FORECAST)
