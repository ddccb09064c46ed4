"""Sizing without a model of the traffic."""

from __future__ import annotations

import numpy as np
import pytest

from estimator.rules.plain import Plain
from estimator.rules.settle import Settling
from forecasting.forecast import Forecast
from tests.estimator.seeing import situation

PLAIN = Plain(utilisation=0.8, catch_up_s=60.0, settle_s=120.0, look_ahead_s=300.0)


def ahead(median: float, upper: float) -> Forecast:
    paths = np.stack([np.full(60, median), np.full(60, upper)])
    return Forecast(issued_at_s=0.0, step_s=60.0, paths=paths, model="test", levels=(0.5, 0.95))


def test_an_upper_quantile_is_margin_enough() -> None:
    sizing, _ = PLAIN.size(situation(rate_per_s=100.0, forecast=ahead(600.0, 900.0)), Settling())

    assert sizing.numbers["demand_per_s"] == pytest.approx(900.0)


def test_no_forecast_pushes_below_what_is_seen() -> None:
    seen = situation(rate_per_s=800.0, forecast=ahead(100.0, 200.0))

    sizing, _ = PLAIN.size(seen, Settling())

    assert sizing.numbers["demand_per_s"] == pytest.approx(800.0 / 0.8)
