"""Made-up topics to measure costs with."""

from __future__ import annotations

import numpy as np

from forecasting.grid import Grid
from forecasting.history import TrafficHistory

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
