"""`boosting`: gradient-boosted trees (LightGBM) over all topics, trained on the very targets.

LightGBM is imported when it is first used: where it cannot be loaded, a controller loses this
model, not its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from forecasting.batch import Batch
from forecasting.features import Features
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS, Grid
from forecasting.heavy import heavy
from forecasting.history import Rates
from forecasting.learned import Lessons, Quantiles, in_order, weights_of

TREES = 120
ROWS_MAX = 40_000
"""Rows of (origin, lead, kind) that the trees see."""


@dataclass(frozen=True, slots=True, eq=False)
class Boosting:
    """One forest a level; lead and kind of target are features like the others."""

    forests: tuple[Any, ...]
    needs: int = 2

    @property
    def name(self) -> str:
        return "boosting"

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        """(rows, KINDS, leads, LEVELS)"""
        table = _table(features.stacked(), batch.grid)
        logs = np.stack([forest.predict(table, num_threads=1) for forest in self.forests], axis=-1)
        rows, leads = features.by_lead.shape[:2]
        shaped = logs.reshape(rows, leads, KINDS, len(LEVELS)).transpose(0, 2, 1, 3)
        return in_order(features.level.to_rates(shaped))

    def texts(self) -> dict[str, str]:
        """What has to be kept of it, in LightGBM's own text format."""
        return {
            f"level-{level}": forest.model_to_string()
            for level, forest in zip(LEVELS, self.forests, strict=True)
        }

    @classmethod
    def from_texts(cls, texts: dict[str, str]) -> Boosting:
        lightgbm = heavy("lightgbm")
        return cls(tuple(lightgbm.Booster(model_str=texts[f"level-{level}"]) for level in LEVELS))


def _table(inputs: Rates, grid: Grid) -> Rates:
    """(rows · leads · KINDS, features + 2)"""
    rows, leads, _ = inputs.shape
    units = grid.leads * (grid.step_s / grid.unit_s)
    lead = np.broadcast_to(np.log1p(units)[None, :, None], (rows, leads, 1))
    with_lead = np.concatenate([inputs, lead], axis=2)
    by_kind = [
        np.concatenate([with_lead, np.full((rows, leads, 1), float(kind))], axis=2) for kind in range(KINDS)
    ]
    return np.stack(by_kind, axis=2).reshape(rows * leads * KINDS, -1)


def train_boosting(lessons: Lessons, *, trees: int = TREES, seed: int = 0, threads: int = 1) -> Boosting:
    """Fit all levels, on a sample of the rows when there are many."""
    lightgbm = heavy("lightgbm")
    grid = lessons.grid
    table = _table(lessons.features.stacked(), grid)
    came = lessons.came.transpose(0, 2, 1).reshape(-1)
    weights = np.repeat(weights_of(lessons), len(grid.leads) * KINDS)
    usable = np.flatnonzero(~np.isnan(came))
    picked = np.random.default_rng(seed).permutation(usable)[:ROWS_MAX]
    data = lightgbm.Dataset(
        table[picked], came[picked], weight=weights[picked], params={"verbose": -1}, free_raw_data=False
    )
    options = {
        "objective": "quantile",
        "learning_rate": 0.07,
        "num_leaves": 15,
        "min_data_in_leaf": 40,
        "bagging_fraction": 0.8,
        "bagging_freq": 1,
        "feature_fraction": 0.6,
        "num_threads": threads,
        "verbose": -1,
        "seed": seed,
        "deterministic": True,
    }
    return Boosting(
        tuple(lightgbm.train({**options, "alpha": level}, data, num_boost_round=trees) for level in LEVELS)
    )
