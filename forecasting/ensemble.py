"""The mean of a few small networks, trained by numpy alone.

Each starts from other random weights and sees the rows in another order; the mean of a
few is steadier than any of them, most of all where there are few rows to learn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.descent import Descent, pinball_slope
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS
from forecasting.history import Rates
from forecasting.learned import Lessons, weights_of

CLIP = 3.0
HIDDEN = 64
MEMBERS = 4
"""Networks that are averaged."""
STEPS_MIN, STEPS_MAX = 400, 1000
"""Of training each: a large fleet has rows for more, and the budget belongs to the transformer."""
_NAMES = ("first", "first_bias", "second", "second_bias", "last", "last_bias")

Single = NDArray[np.float32]
"""Networks count in single precision: half the time, and noise is larger than what is lost."""
Layers = tuple[Single, ...]
"""Matrices and biases in turn."""


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """Networks of two hidden layers, and how their inputs are standardised."""

    members: tuple[Layers, ...]
    centre: Rates
    spread: Rates

    def logs(self, raw: Rates) -> Rates:
        """Log-ratio quantiles (rows, KINDS, leads, LEVELS) of raw inputs (rows, inputs)."""
        inputs = standardised(raw, self.centre, self.spread)
        answers = np.stack([_forward(layers, inputs)[-1] for layers in self.members])
        mean = answers.mean(axis=0, dtype=np.float64)
        leads = mean.shape[1] // (KINDS * len(LEVELS))
        return np.asarray(mean.reshape(len(raw), KINDS, leads, len(LEVELS)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What has to be kept of it."""
        kept: dict[str, NDArray[Any]] = {"centre": self.centre, "spread": self.spread}
        for i, layers in enumerate(self.members):
            kept |= {f"{name}.{i}": layer for name, layer in zip(_NAMES, layers, strict=True)}
        return kept

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Ensemble:
        count = sum(name.startswith("first_bias.") for name in arrays)
        members = (
            tuple(np.asarray(arrays[f"{name}.{i}"], dtype=np.float32) for name in _NAMES)
            for i in range(count)
        )
        return cls(tuple(members), arrays["centre"], arrays["spread"])


def standardised(raw: Rates, centre: Rates, spread: Rates) -> Single:
    """In standard deviations, none further out than `CLIP` of them."""
    return np.asarray(np.clip((raw - centre) / spread, -CLIP, CLIP), dtype=np.float32)


def _forward(layers: Sequence[NDArray[Any]], inputs: Single) -> tuple[Single, Single, Single]:
    """Both hidden layers (leaky rectifiers) and the answer."""
    first = inputs @ layers[0] + layers[1]
    first = np.maximum(first, 0.05 * first)
    second = first @ layers[2] + layers[3]
    second = np.maximum(second, 0.05 * second)
    return first, second, second @ layers[4] + layers[5]


def train_ensemble(
    raw: Rates,
    lessons: Lessons,
    rows: NDArray[np.int64],
    *,
    noise: float = 0.2,
    epochs: int = 20,
    steps: int | None = None,
    batch: int = 256,
    rate: float = 2e-3,
    seed: int = 0,
) -> Ensemble:
    """Back-propagation of the pinball loss, for `epochs` within limits or exactly `steps`.

    `raw` are the inputs of these `rows` of the lessons. `noise`, in standard deviations, is on them
    while training: it keeps networks from learning rows by heart.
    """
    centre, spread = raw.mean(axis=0), raw.std(axis=0) + 1e-6
    inputs = standardised(raw, centre, spread)
    came = lessons.came[rows].reshape(len(rows), -1)
    weights = weights_of(lessons)[rows]
    count = steps or min(max(STEPS_MIN, epochs * (len(inputs) // batch)), STEPS_MAX)

    def trained(draw: np.random.Generator) -> Layers:
        descent = Descent(_start(inputs.shape[1], came, draw), rate=rate, decay=0.01)
        for step in range(count):
            picked = draw.integers(0, len(inputs), size=min(batch, len(inputs)))
            shaken = draw.standard_normal(size=(len(picked), inputs.shape[1]), dtype=np.float32)
            noisy = inputs[picked] + np.float32(noise) * shaken
            gradients = _gradients(descent.weights, noisy, came[picked], weights[picked])
            descent.step(gradients, share=step / count)
        return tuple(np.asarray(layer, dtype=np.float32) for layer in descent.weights)

    draws = np.random.default_rng(seed).spawn(MEMBERS)
    return Ensemble(tuple(trained(draw) for draw in draws), centre, spread)


def _start(width: int, came: Rates, draw: np.random.Generator) -> list[Single]:
    """Random hidden layers; an answer that starts from the quantiles of what came."""
    known = np.nan_to_num(np.nanquantile(came, np.array(LEVELS), axis=0)).T.reshape(-1)
    layers = [
        draw.normal(size=(width, HIDDEN)) * np.sqrt(2 / width),
        np.zeros(HIDDEN),
        draw.normal(size=(HIDDEN, HIDDEN)) * np.sqrt(2 / HIDDEN),
        np.zeros(HIDDEN),
        draw.normal(size=(HIDDEN, known.size)) * 0.01,
        known,
    ]
    return [np.asarray(layer, dtype=np.float32) for layer in layers]


def _gradients(
    layers: Sequence[NDArray[Any]], inputs: Single, came: Rates, weights: Rates
) -> list[NDArray[Any]]:
    first, second, answer = _forward(layers, inputs)
    rows = len(inputs)
    guess = answer.reshape(*came.shape, len(LEVELS))
    slope = (pinball_slope(guess, came) * weights[:, None, None]).reshape(rows, -1) / rows
    back = np.asarray(slope, dtype=np.float32)
    into_second = (back @ layers[4].T) * np.where(second > 0, np.float32(1.0), np.float32(0.05))
    into_first = (into_second @ layers[2].T) * np.where(first > 0, np.float32(1.0), np.float32(0.05))
    return [
        inputs.T @ into_first,
        into_first.sum(axis=0),
        first.T @ into_second,
        into_second.sum(axis=0),
        second.T @ back,
        back.sum(axis=0),
    ]
