"""What forecasting costs: a retraining, a serving call, memory."""

from __future__ import annotations

import gc
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from forecasting.batch import batch_of
from forecasting.calendar import Calendar
from forecasting.features import describe
from forecasting.fleet import Fleet
from forecasting.grid import Grid
from forecasting.heavy import installed
from forecasting.history import TrafficHistory
from services.forecaster.artefacts import ArtefactStore
from services.forecaster.lesson import TrainingRequest, train

GRID = Grid(step_s=300.0, horizon_s=4500.0)
TOPICS = 1000


def topics(count: int, *, days: int = 14) -> dict[str, TrafficHistory]:
    """Days of five-minute bins, each topic with a level and a phase of its own."""
    draw = np.random.default_rng(1)
    at = np.arange(days * 288)
    made = {}
    for i in range(count):
        level, phase = 10 ** draw.uniform(0, 3), draw.uniform(0, 2 * np.pi)
        mean = level * (1.2 + np.sin(2 * np.pi * at / 288 + phase)) * np.exp(draw.normal(0, 0.1, len(at)))
        made[f"topic-{i}"] = TrafficHistory(0.0, 300.0, draw.poisson(mean * 300) / 300)
    return made


def measure_cost() -> dict[str, Any]:
    """Retraining (20 topics, 14 days, 5 minutes), serving 1,000 topics, memory."""
    with tempfile.TemporaryDirectory() as directory:
        network = "patchtst" if installed("torch") and installed("neuralforecast") else ""
        request = TrainingRequest(GRID, network=network)
        manifest = train(request, topics(20), Path(directory), lambda _stage, _share: None)
        return {
            "retrain_cpu_s": manifest.cpu_s,
            "retrain_losses_over_best_untrained": dict(manifest.losses),
            **_serving(ArtefactStore(Path(directory)), manifest.version),
        }


def _serving(store: ArtefactStore, version: str) -> dict[str, Any]:
    gc.collect()
    before = psutil.Process().memory_info().rss
    _, models = store.load(version, GRID)
    loaded = psutil.Process().memory_info().rss
    histories = topics(TOPICS, days=8)
    batch = batch_of(GRID, list(histories.values()))
    features = describe(batch, Calendar())
    fleet = Fleet(GRID, learned=models)
    fleet.forecast(histories)
    return {
        "memory_of_models_mb": (loaded - before) / 2**20,
        "prepare_1000_topics_cpu_ms": _cpu_ms(
            lambda: describe(batch_of(GRID, list(histories.values())), Calendar())
        ),
        **{
            f"serve_1000_topics_cpu_ms.{model.name}": _cpu_ms(lambda m=model: m.quantiles(batch, features))
            for model in models
        },
        "whole_step_1000_topics_cpu_ms": _cpu_ms(lambda: fleet.forecast(histories), times=1),
    }


def _cpu_ms(call: Any, *, times: int = 5) -> float:
    """The median of a few calls."""
    spent = []
    for _ in range(times):
        started_s = time.process_time()
        call()
        spent.append(1000 * (time.process_time() - started_s))
    return float(np.median(spent))
