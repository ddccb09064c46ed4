"""`python -m benchmarks.forecast_memory DIR VERSION`: what forecasting adds to a controller's memory, in MB.

In a process of its own: memory that was used once is seldom given back.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil

import services.controller.wiring  # noqa: F401 - what a controller has loaded anyway
from benchmarks.forecast_topics import GRID, TOPICS, topics
from forecasting.fleet import Fleet
from forecasting.heavy import installed
from services.forecaster.artefacts import ArtefactStore


def main(directory: str, version: str) -> None:
    histories = topics(TOPICS, days=8)  # the meter's, with or without forecasting
    before = psutil.Process().memory_info().rss
    _, models = ArtefactStore(Path(directory)).load(version, GRID)
    fleet = Fleet(GRID, learned=models, rehearses=True)
    for _ in range(3):
        fleet.forecast(histories)
    after = psutil.Process().memory_info().rss
    print(
        json.dumps(
            {
                "controller_mb_without_forecasting": before / 2**20,
                "controller_mb_more_1000_topics": (after - before) / 2**20,
                "torch_loaded": installed("torch") and "torch" in sys.modules,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
