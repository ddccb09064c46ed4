"""How trained models do on the season that training held out, against the light ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from forecasting.batch import batch_at
from forecasting.calendar import Calendar
from forecasting.evaluation import pinball
from forecasting.features import describe, targets_of
from forecasting.grid import Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.learned import FleetModel
from forecasting.selector import UPPER
from forecasting.voices import light_models, said_by_light

HELD_OUT_ORIGINS = 48
"""Origins of the last day at which every model is judged, by topic."""
JUDGED_TOPICS = 60
"""Of a large fleet, that many judge for all: light models cost some CPU-milliseconds an origin."""


def judge(
    grid: Grid, histories: Mapping[str, TrafficHistory], models: Sequence[FleetModel], calendar: Calendar
) -> dict[str, float]:
    """By model: pinball loss at 0.95 on the last season over the best light model's, geometric mean."""
    ratios: dict[str, list[float]] = {model.name: [] for model in models}
    every = -(-len(histories) // JUDGED_TOPICS)
    for history in list(histories.values())[:: max(every, 1)]:
        end = len(history.rates)
        origins = np.unique(np.linspace(end - grid.season, end - grid.reach, HELD_OUT_ORIGINS).astype(int))
        origins = origins[origins > grid.bins(60)]
        if len(origins) < 8:
            continue
        batch = batch_at(grid, history, origins)
        came, features = targets_of(batch, history.rates), describe(batch, calendar)
        best = _best_light(grid, history, origins, came)
        for model in models:
            ratios[model.name].append(_loss(came, model.quantiles(batch, features)) / max(best, 1e-12))
    return {
        name: float(np.exp(np.mean(np.log(np.maximum(found, 1e-6))))) if found else float("inf")
        for name, found in ratios.items()
    }


def _best_light(grid: Grid, history: TrafficHistory, origins: Rates, came: Rates) -> float:
    said: dict[str, list[Rates]] = {}
    for origin in origins:
        past = replace(history, rates=history.rates[: int(origin)])
        for name, quantiles in said_by_light(light_models(grid), past, grid).items():
            said.setdefault(name, []).append(quantiles)
    full = [np.stack(rows) for rows in said.values() if len(rows) == len(origins)]
    return min((_loss(came, quantiles) for quantiles in full), default=float("inf"))


def _loss(came: Rates, quantiles: Rates) -> float:
    loss = pinball(came, quantiles[..., UPPER], 0.95)
    return float(np.nanmean(loss)) if np.isfinite(loss).any() else float("inf")
