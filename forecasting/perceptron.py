"""`perceptron`: small networks on the same features as the regression. Trained by numpy alone.

They see the features of all leads at once and may bend where the regression is a line.
Each starts from other random weights and sees the rows in another order; the mean of a
few is steadier than any of them, most of all where there are few rows to learn from.
"""

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
HIDDEN = 64
MEMBERS = 4
"""Networks that are averaged."""
NOISE = 0.2
"""On standardised inputs, while training."""
_NAMES = ("first", "first_bias", "second", "second_bias", "last", "last_bias")


@dataclass(frozen=True, slots=True, eq=False)
class Perceptron:
    """Networks of two hidden layers, each as matrices and biases in turn."""

    members: tuple[tuple[Rates, ...], ...]
    centre: Rates
    spread: Rates
    needs: int = 2

    @property
    def name(self) -> str:
        return "perceptron"

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        """(rows, KINDS, leads, LEVELS)"""
        del batch
        inputs = _inputs(features, self.centre, self.spread)
        logs = sum(_forward(layers, inputs)[-1] for layers in self.members) / np.float64(len(self.members))
        leads = features.by_lead.shape[1]
        return in_order(features.level.to_rates(logs.reshape(-1, KINDS, leads, len(LEVELS))))

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """What has to be kept of it."""
        kept = {"centre": self.centre, "spread": self.spread}
        for i, layers in enumerate(self.members):
            kept |= {f"{name}.{i}": layer for name, layer in zip(_NAMES, layers, strict=True)}
        return kept

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.float64]]) -> Perceptron:
        count = sum(name.startswith("first_bias.") for name in arrays)
        members = (tuple(arrays[f"{name}.{i}"] for name in _NAMES) for i in range(count))
        return cls(tuple(members), arrays["centre"], arrays["spread"])


def _raw(features: Features) -> Rates:
    rows = len(features.common)
    return np.concatenate([features.common, features.by_lead.reshape(rows, -1)], axis=1)


def _inputs(features: Features, centre: Rates, spread: Rates) -> Rates:
    return np.clip((_raw(features) - centre) / spread, -CLIP, CLIP)


def _forward(layers: tuple[Rates, ...] | list[Rates], inputs: Rates) -> tuple[Rates, Rates, Rates]:
    """Both hidden layers (leaky rectifiers) and the answer."""
    first = inputs @ layers[0] + layers[1]
    first = np.maximum(first, 0.05 * first)
    second = first @ layers[2] + layers[3]
    second = np.maximum(second, 0.05 * second)
    return first, second, second @ layers[4] + layers[5]


def train_perceptron(
    lessons: Lessons, *, epochs: int = 20, batch: int = 256, rate: float = 2e-3, seed: int = 0
) -> Perceptron:
    """Back-propagation of the pinball loss; noise on the inputs keeps it from learning rows by heart."""
    raw = _raw(lessons.features)
    centre, spread = raw.mean(axis=0), raw.std(axis=0) + 1e-6
    inputs = _inputs(lessons.features, centre, spread)
    came = lessons.came.reshape(len(lessons), -1)
    steps = max(400, epochs * (len(inputs) // batch))

    def trained(draw: np.random.Generator) -> tuple[Rates, ...]:
        descent = Descent(_start(inputs.shape[1], came, draw), rate=rate, decay=0.01)
        weights = weights_of(lessons)
        for step in range(steps):
            picked = draw.integers(0, len(inputs), size=min(batch, len(inputs)))
            noisy = inputs[picked] + draw.normal(scale=NOISE, size=(len(picked), inputs.shape[1]))
            gradients = _gradients(descent.weights, noisy, came[picked], weights[picked])
            descent.step(gradients, share=step / steps)
        return tuple(descent.weights)

    draws = np.random.default_rng(seed).spawn(MEMBERS)
    return Perceptron(tuple(trained(draw) for draw in draws), centre, spread)


def _start(width: int, came: Rates, draw: np.random.Generator) -> list[Rates]:
    """Random hidden layers; an answer that starts from the quantiles of what came."""
    known = np.nan_to_num(np.nanquantile(came, np.array(LEVELS), axis=0)).T.reshape(-1)
    return [
        draw.normal(size=(width, HIDDEN)) * np.sqrt(2 / width),
        np.zeros(HIDDEN),
        draw.normal(size=(HIDDEN, HIDDEN)) * np.sqrt(2 / HIDDEN),
        np.zeros(HIDDEN),
        draw.normal(size=(HIDDEN, known.size)) * 0.01,
        known,
    ]


def _gradients(layers: list[Rates], inputs: Rates, came: Rates, weights: Rates) -> list[Rates]:
    first, second, answer = _forward(layers, inputs)
    rows = len(inputs)
    guess = answer.reshape(*came.shape, len(LEVELS))
    back = (pinball_slope(guess, came) * weights[:, None, None]).reshape(rows, -1) / rows
    into_second = (back @ layers[4].T) * np.where(second > 0, 1.0, 0.05)
    into_first = (into_second @ layers[2].T) * np.where(first > 0, 1.0, 0.05)
    return [
        inputs.T @ into_first,
        into_first.sum(axis=0),
        first.T @ into_second,
        into_second.sum(axis=0),
        second.T @ back,
        back.sum(axis=0),
    ]
