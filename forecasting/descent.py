"""Stochastic descent on the pinball loss, for models that numpy trains by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.forecast import LEVELS
from forecasting.history import Rates

_TAUS = np.array(LEVELS)


def pinball_slope(guess: NDArray[Any], came: Rates) -> Rates:
    """Slope of the pinball loss by guess (..., LEVELS); an unknown target (NaN) pulls nowhere.

    >>> pinball_slope(np.array([[1.0, 2.0, 3.0, 3.0, 3.0]]), np.array([2.5])).round(2).tolist()
    [[-0.1, -0.5, 0.1, 0.05, 0.01]]
    """
    slope = np.where(came[..., None] > guess, -_TAUS, 1 - _TAUS)
    return np.asarray(np.where(np.isnan(came)[..., None], 0.0, slope))


class Descent:
    """Adam with a warm-up, a cosine decay to nothing, and weight decay on matrices."""

    def __init__(self, weights: Sequence[NDArray[Any]], *, rate: float, decay: float = 1e-3) -> None:
        self.weights = list(weights)
        self._rate = rate
        self._decay = decay
        self._means = [np.zeros_like(weight) for weight in weights]
        self._squares = [np.zeros_like(weight) for weight in weights]
        self._steps = 0

    def step(self, gradients: Sequence[NDArray[Any]], *, share: float) -> None:
        """`share` is how much of the training has passed."""
        self._steps += 1
        rate = self._rate * min(1.0, share / 0.1 + 0.05) * 0.5 * (1 + np.cos(np.pi * share))
        for i, gradient in enumerate(gradients):
            self._means[i] += 0.1 * (gradient - self._means[i])
            self._squares[i] += 0.001 * (gradient**2 - self._squares[i])
            mean = self._means[i] / (1 - 0.9**self._steps)
            square = self._squares[i] / (1 - 0.999**self._steps)
            if self.weights[i].ndim > 1:
                self.weights[i] *= 1 - rate * self._decay
            self.weights[i] -= rate * mean / (np.sqrt(square) + 1e-8)
