"""Who leads the forecasts of the demo's day, played without a cluster on counts as the meter tells them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from forecasting.fleet import Fleet
from forecasting.grid import Grid
from services.demo.scenario import START_S, TRAIN_CPU_S, Scenario
from services.forecaster.artefacts import ArtefactStore
from services.forecaster.lesson import TrainingRequest, train
from services.meter.history import RateHistory
from services.traffic.shape import DAY_S

BEGAN_S = 1_790_000_000.0
TRAINED_S = 14
"""Wall seconds after the start: before the flash crowd."""


def test_once_it_is_trained_the_transformer_leads_through_the_flash_crowd(tmp_path: Path) -> None:
    scenario = Scenario(minutes=2)
    grid = Grid(scenario.step_s, 15 * scenario.step_s, DAY_S / scenario.speed_up)
    meter = RateHistory(step_s=scenario.step_s)
    meter.seed(scenario.history(until_s=BEGAN_S))
    request = TrainingRequest(grid, network="patchtst", beside=(), budget_cpu_s=TRAIN_CPU_S, steps=600)
    train(request, {"clicks": meter.history()}, tmp_path, lambda *_: None)
    store = ArtefactStore(tmp_path)
    version = store.current()
    assert version is not None, "it beats the light models on the last day"
    seconds = np.arange(120.0)
    middles = START_S + (seconds + 0.5) * scenario.speed_up
    counts = np.random.default_rng(5).poisson(scenario.shape.rates(middles))

    fleet, led = Fleet(grid, rehearses=True), list[str]()
    for second in range(120):
        meter.add(BEGAN_S + second, BEGAN_S + second + 1, float(counts[second]))
        if second == TRAINED_S:
            fleet = fleet.with_learned(store.load(version, grid, None)[1])
        led.append(fleet.forecast({"clicks": meter.history()})["clicks"].model)

    assert "patchtst" not in led[:TRAINED_S]
    assert set(led[TRAINED_S:]) == {"patchtst"}
