"""`python -m benchmarks.forecast_cost`: a retraining, a serving call beside the framework's own, memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.forecast_peer import measure_peer
from benchmarks.forecast_topics import GRID, TOPICS, topics
from forecasting.batch import batch_of
from forecasting.calendar import Calendar
from forecasting.features import describe
from forecasting.fleet import Fleet
from services.forecaster.artefacts import ArtefactStore
from services.forecaster.lesson import TrainingRequest, train


def measure_cost() -> dict[str, Any]:
    """Retraining (20 topics, 14 days, 5 minutes), serving 1,000 topics, memory."""
    with tempfile.TemporaryDirectory() as directory:
        request = TrainingRequest(GRID)
        manifest = train(request, topics(20), Path(directory), lambda _stage, _share: None)
        return {
            "retrain_cpu_s": manifest.cpu_s,
            "retrain_losses_over_best_untrained": dict(manifest.losses),
            **_serving(ArtefactStore(Path(directory)), manifest.version),
            **_memory(directory, manifest.version),
        }


def _memory(directory: str, version: str) -> dict[str, Any]:
    measured = subprocess.run(
        [sys.executable, "-m", "benchmarks.forecast_memory", directory, version],
        capture_output=True,
        text=True,
        check=True,
    )
    figures: dict[str, Any] = json.loads(measured.stdout)
    return figures


def _serving(store: ArtefactStore, version: str) -> dict[str, Any]:
    _, models = store.load(version, GRID)
    histories = topics(TOPICS, days=8)
    batch = batch_of(GRID, list(histories.values()))
    features = describe(batch, Calendar())
    fleet = Fleet(GRID, learned=models)
    fleet.forecast(histories)
    figures = {
        "prepare_1000_topics_cpu_ms": _cpu_ms(
            lambda: describe(batch_of(GRID, list(histories.values())), Calendar())
        ),
        **{
            f"serve_1000_topics_cpu_ms.{model.name}": _cpu_ms(lambda m=model: m.quantiles(batch, features))
            for model in models
        },
        "whole_step_1000_topics_cpu_ms": _cpu_ms(lambda: fleet.forecast(histories), times=1),
        **measure_peer(),
    }
    ours, theirs = "serve_1000_topics_cpu_ms.patchtst", "serve_1000_topics_cpu_ms.nf_predict"
    if ours in figures and theirs in figures:
        figures["nf_predict_over_ours"] = figures[theirs] / figures[ours]
    return figures


def _cpu_ms(call: Any, *, times: int = 5) -> float:
    """The median of a few calls."""
    spent = []
    for _ in range(times):
        started_s = time.process_time()
        call()
        spent.append(1000 * (time.process_time() - started_s))
    return float(np.median(spent))


if __name__ == "__main__":
    print(json.dumps(measure_cost(), indent=1))
