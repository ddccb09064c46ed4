"""How trained models do on the season that training held out, against the light ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from forecasting.batch import batch_at
from forecasting.calendar import Calendar
from forecasting.evaluation import pinball
from forecasting.features import targets_of
from forecasting.grid import Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.learned import FleetModel
from forecasting.residuals import Indices
from forecasting.selector import UPPER
from forecasting.voices import light_models, said_by_learned, said_by_light

HELD_OUT_ORIGINS = 48
"""Origins of the last day at which every model is judged, by topic."""
JUDGED_TOPICS = 60
"""Of a large fleet, that many judge for all: light models cost some CPU-milliseconds an origin."""
NEGLIGIBLE_SHARE, NEGLIGIBLE_PER_S = 1e-3, 1e-6
"""A loss of this share of a topic's mean rate, or of this rate, is none: traffic that stands still
is foretold to the last digit by light models, and a ratio to nothing would speak for all other topics."""
ORIGINS_MIN = 8
"""Fewer than this tell nothing of a topic."""


def judge(
    grid: Grid, histories: Mapping[str, TrafficHistory], models: Sequence[FleetModel], calendar: Calendar
) -> dict[str, float]:
    """By model: pinball loss at 0.95 on the last season over the best light model's, geometric mean.

    What a model says is taken as it would be served. A topic of which nothing was measured
    in that season, or of which a model says nothing, has no say.
    """
    ratios: dict[str, list[float]] = {model.name: [] for model in models}
    every = -(-len(histories) // JUDGED_TOPICS)
    for history in list(histories.values())[:: max(every, 1)]:
        if not history.known:
            continue
        end, first = len(history.rates), int(np.argmax(~np.isnan(history.rates)))
        origins = np.unique(np.linspace(end - grid.season, end - grid.reach, HELD_OUT_ORIGINS).astype(int))
        origins = origins[origins > first + grid.bins(60)]
        if len(origins) < ORIGINS_MIN:
            continue
        batch = batch_at(grid, history, origins)
        came = targets_of(batch, history.rates)
        if np.isnan(came).all():
            continue
        light = _said_by_light(grid, history, origins)
        nothing = max(NEGLIGIBLE_SHARE * float(np.nanmean(history.rates)), NEGLIGIBLE_PER_S)
        for name, said in said_by_learned(models, batch, calendar).items():
            heard = np.where(np.isnan(said[..., UPPER]), np.nan, came)
            if np.count_nonzero(~np.isnan(heard).all(axis=(1, 2))) < ORIGINS_MIN:
                continue
            best = min(_loss(heard, one) for one in light)
            ratios[name].append(max(_loss(heard, said), nothing) / max(best, nothing))
    return {
        name: float(np.exp(np.mean(np.log(found)))) if found else float("inf")
        for name, found in ratios.items()
    }


def _said_by_light(grid: Grid, history: TrafficHistory, origins: Indices) -> list[Rates]:
    """What each light model said, of those that spoke at all origins; the simplest always does."""
    said: dict[str, list[Rates]] = {}
    for origin in origins:
        past = replace(history, rates=history.rates[: int(origin)])
        for name, quantiles in said_by_light(light_models(grid), past, grid).items():
            said.setdefault(name, []).append(quantiles)
    return [np.stack(rows) for rows in said.values() if len(rows) == len(origins)]


def _loss(came: Rates, quantiles: Rates) -> float:
    return float(np.nanmean(pinball(came, quantiles[..., UPPER], 0.95)))
