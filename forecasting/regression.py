"""`regression`: linear quantile regression on log ratios. Trained in seconds, by numpy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.batch import Batch
from forecasting.descent import Descent, pinball_slope
from forecasting.features import Features
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS
from forecasting.history import Rates
from forecasting.learned import Lessons, Quantiles, in_order, weights_of

CLIP = 3.0
"""Features further out than this many standard deviations count as this far: a line must not run away."""


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """Weights by lead: (leads, features + 1, KINDS · LEVELS); the last feature is the constant 1."""

    weights: Rates
    centre: Rates
    spread: Rates
    needs: int = 2

    @property
    def name(self) -> str:
        return "regression"

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        """(rows, KINDS, leads, LEVELS)"""
        del batch
        inputs = _standardised(features.stacked(), self.centre, self.spread)
        logs = np.matmul(inputs.transpose(1, 0, 2), self.weights)  # (leads, rows, outputs)
        leads, rows, _ = logs.shape
        shaped = logs.reshape(leads, rows, KINDS, len(LEVELS)).transpose(1, 2, 0, 3)
        return in_order(features.level.to_rates(shaped))

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """What has to be kept of it."""
        return {"weights": self.weights, "centre": self.centre, "spread": self.spread}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.float64]]) -> Regression:
        return cls(arrays["weights"], arrays["centre"], arrays["spread"])


def _standardised(inputs: Rates, centre: Rates, spread: Rates) -> Rates:
    scaled = np.clip((inputs - centre) / spread, -CLIP, CLIP)
    return np.concatenate([scaled, np.ones((*scaled.shape[:-1], 1))], axis=-1)


def train_regression(
    lessons: Lessons, *, epochs: int = 30, batch: int = 256, rate: float = 1e-2, seed: int = 0
) -> Regression:
    """Stochastic descent on the pinball loss, with a step that decays to nothing.

    Plain quantile regression by linear programming gives the same line; this takes
    a second for all leads and levels together.
    """
    inputs = lessons.features.stacked()
    centre, spread = inputs.mean(axis=(0, 1)), inputs.std(axis=(0, 1)) + 1e-6
    scaled = _standardised(inputs, centre, spread).transpose(1, 0, 2).copy()  # (leads, rows, features)
    came = lessons.came.transpose(2, 0, 1)  # (leads, rows, KINDS)
    row_weights = weights_of(lessons)
    descent = Descent([_start(came, scaled.shape[-1])], rate=rate)
    draw = np.random.default_rng(seed)
    rows = scaled.shape[1]
    steps = max(800, epochs * max(1, rows // batch))
    for step in range(steps):
        picked = draw.integers(0, rows, size=min(batch, rows))
        weights = descent.weights[0]
        gradient = _gradient(weights, scaled[:, picked], came[:, picked], row_weights[picked])
        descent.step([gradient], share=step / steps)
    return Regression(descent.weights[0], centre, spread)


def _start(came: Rates, features: int) -> Rates:
    """All weights zero but the constant: the quantiles of what came."""
    leads = came.shape[0]
    start = np.zeros((leads, features, KINDS * len(LEVELS)))
    unconditional = np.nanquantile(came, np.array(LEVELS), axis=1)  # (LEVELS, leads, KINDS)
    start[:, -1, :] = np.nan_to_num(unconditional).transpose(1, 2, 0).reshape(leads, -1)
    return start


def _gradient(weights: Rates, inputs: Rates, came: Rates, row_weights: Rates) -> Rates:
    """Of the weighted pinball loss; an unknown target pulls nowhere."""
    leads, rows, _ = inputs.shape
    guess = np.matmul(inputs, weights).reshape(leads, rows, KINDS, len(LEVELS))
    slope = pinball_slope(guess, came) * row_weights[None, :, None, None]
    slope = slope.reshape(leads, rows, -1)
    return np.asarray(np.matmul(inputs.transpose(0, 2, 1), slope) / rows)
