"""What operators see of forecasts, and what a controller need not load for them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from prometheus_client import CollectorRegistry

from services.control.loop import Tick
from services.controller.metrics import Metrics
from services.settings.scaling import SloSettings
from tests.control.worlds import an_observation
from tests.forecasting.extras import needs_torch


def test_the_live_score_and_a_stand_in_are_in_the_metrics() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    seen = an_observation(coming=400.0)
    assert seen.forecast is not None

    def shown(score: float, trouble: str) -> tuple[float | None, float | None]:
        forecast = replace(seen.forecast, score=score, trouble=trouble) if seen.forecast else None
        metrics.ticked(Tick(seen.job, seen.at_s, replace(seen, forecast=forecast)), SloSettings())
        labels = {"job": seen.job}
        return (
            registry.get_sample_value("penstock_forecast_score", labels),
            registry.get_sample_value("penstock_forecast_trouble", labels),
        )

    assert shown(0.04, "") == (0.04, 0.0)
    assert shown(0.07, "patchtst failed; the others speak") == (0.07, 1.0)
    assert shown(0.05, "") == (0.05, 0.0)


SERVE_THE_TRANSFORMER = """
import sys
import services.cli.main, services.controller.controller, services.forecaster.fleets
from forecasting.fleet import Fleet
from tests.forecasting.worlds import GRID, history, rhythm, untrained_patchtst

ahead = Fleet(GRID, learned=(untrained_patchtst(),)).forecast({"a": history(rhythm(9))})["a"]
assert "patchtst" in ahead.shares, ahead.shares
print(*sorted({"torch", "neuralforecast", "lightgbm", "pandas"} & sys.modules.keys()))
"""


@needs_torch
def test_a_controller_serves_the_transformer_without_the_packages_that_train_others() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SERVE_THE_TRANSFORMER],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == []
