"""`regression`: linear quantile regression on log ratios. Trained in seconds, by numpy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.batch import Batch
from forecasting.features import Features
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS
from forecasting.history import Rates
from forecasting.learned import Lessons, Quantiles, in_order, weights_of

CLIP = 3.0
"""Features further out than this many standard deviations count as this far: a line must not run away."""
_TAUS = np.array(LEVELS)


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
    lessons: Lessons, *, epochs: int = 30, batch: int = 256, rate: float = 3e-3, seed: int = 0
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
    descent = _Descent(_start(came, scaled.shape[-1]), rate=rate)
    draw = np.random.default_rng(seed)
    rows = scaled.shape[1]
    steps = max(200, epochs * max(1, rows // batch))
    for step in range(steps):
        picked = draw.integers(0, rows, size=min(batch, rows))
        gradient = _gradient(descent.weights, scaled[:, picked], came[:, picked], row_weights[picked])
        descent.step(gradient, share=step / steps)
    return Regression(descent.weights, centre, spread)


def _start(came: Rates, features: int) -> Rates:
    """All weights zero but the constant: the quantiles of what came."""
    leads = came.shape[0]
    start = np.zeros((leads, features, KINDS * len(LEVELS)))
    unconditional = np.nanquantile(came, _TAUS, axis=1)  # (LEVELS, leads, KINDS)
    start[:, -1, :] = np.nan_to_num(unconditional).transpose(1, 2, 0).reshape(leads, -1)
    return start


def _gradient(weights: Rates, inputs: Rates, came: Rates, row_weights: Rates) -> Rates:
    """Of the weighted pinball loss; an unknown target pulls nowhere."""
    leads, rows, _ = inputs.shape
    guess = np.matmul(inputs, weights).reshape(leads, rows, KINDS, len(LEVELS))
    above = came[..., None] > guess
    slope = np.where(above, -_TAUS, 1 - _TAUS) * row_weights[None, :, None, None]
    slope = np.where(np.isnan(came)[..., None], 0.0, slope).reshape(leads, rows, -1)
    return np.asarray(np.matmul(inputs.transpose(0, 2, 1), slope) / rows)


class _Descent:
    """Adam with a one-cycle step and weight decay."""

    def __init__(self, weights: Rates, *, rate: float, decay: float = 1e-3) -> None:
        self.weights = weights
        self._rate = rate
        self._decay = decay
        self._mean = np.zeros_like(weights)
        self._square = np.zeros_like(weights)
        self._steps = 0

    def step(self, gradient: Rates, *, share: float) -> None:
        """`share` is how much of the training has passed."""
        self._steps += 1
        rate = self._rate * min(1.0, share / 0.1 + 0.05) * 0.5 * (1 + np.cos(np.pi * share))
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.001 * (gradient**2 - self._square)
        mean = self._mean / (1 - 0.9**self._steps)
        square = self._square / (1 - 0.999**self._steps)
        self.weights[:, :-1] *= 1 - rate * self._decay
        self.weights -= rate * mean / (np.sqrt(square) + 1e-8)
