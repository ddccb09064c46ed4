"""What the same network costs when it is asked through its framework: neuralforecast's `predict`."""

from __future__ import annotations

import logging
import time
from typing import Any

from benchmarks.forecast_topics import GRID, TOPICS, topics
from forecasting.forecast import LEVELS
from forecasting.heavy import heavy, installed
from forecasting.network import spec_named


def measure_peer() -> dict[str, Any]:
    """CPU-ms of `nf.predict` of a PatchTST of our size for 1,000 topics; empty where it is not installed."""
    if not (installed("torch") and installed("neuralforecast")):
        return {}
    heavy("torch").set_num_threads(1)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    spec, quiet = (
        spec_named("patchtst"),
        {"enable_progress_bar": False, "enable_model_summary": False, "logger": False},
    )
    network = heavy("neuralforecast.models").PatchTST(
        h=spec.positions(GRID),
        input_size=spec.inputs,
        loss=heavy("neuralforecast.losses.pytorch").MQLoss(quantiles=list(LEVELS)),
        max_steps=1,
        **dict(spec.options),
        **quiet,
    )
    framework = heavy("neuralforecast").NeuralForecast(models=[network], freq=1)
    frame = _frame()
    framework.fit(frame)
    framework.predict(frame)
    started_s = time.process_time()
    framework.predict(frame)
    return {"serve_1000_topics_cpu_ms.nf_predict": 1000 * (time.process_time() - started_s)}


def _frame() -> Any:
    pandas = heavy("pandas")
    made = topics(TOPICS, days=2)
    return pandas.concat(
        pandas.DataFrame({"unique_id": topic, "ds": range(len(past.rates)), "y": past.rates})
        for topic, past in made.items()
    )
