"""The model: a factorisation machine with one hidden layer beside it, as DeepFM has it.

For a sample with ids i of C fields, numeric features x, and of each id a row (w_i, v_i):

    logit = b + Σ w_i + u·x + ½ (|Σ v_i|² - Σ |v_i|²) + a·relu(W (v_1, …, v_C, x) + c)

A cross is one more id: that of the combination of two fields. The rows come from the parameter server
for each batch; b, u, W, c and a are the dense part, one flat vector. Here in numpy, for machines without
PyTorch; `torch_net` computes the same in PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np

from services.samples.layout import Floats, Ids, SampleShape

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)
_ABSURD: Final = 1e6
"""A gradient beyond this comes from features that were never scaled, or from an overflow. Its square would
stay in the optimiser's sums and keep the parameter from ever moving again."""


@dataclass(frozen=True, slots=True)
class NetShape:
    """The sizes of a net.

    >>> NetShape(SampleShape(6, 2), dim=8, hidden=32).dense_size
    1667
    """

    sample: SampleShape
    dim: int = 8
    """Numbers in an embedding."""
    hidden: int = 32
    """Units of the hidden layer."""
    crosses: tuple[tuple[int, int], ...] = ()
    """Pairs of fields whose combination is an id of its own, with parameters of its own."""

    @property
    def fields(self) -> int:
        """Ids of a sample that have parameters: its own, and one for each cross."""
        return self.sample.categorical + len(self.crosses)

    def crossed(self, ids: Ids) -> Ids:
        """The ids of each sample, and behind them those of the crosses.

        >>> shape = NetShape(SampleShape(2, 0), crosses=((0, 1),))
        >>> ids = shape.crossed(np.array([[1, 2], [2, 1], [1, 2]], np.uint64))
        >>> ids.shape, bool(ids[0, 2] == ids[2, 2]), bool(ids[0, 2] == ids[1, 2])
        ((3, 3), True, False)
        """
        if not self.crosses:
            return ids
        made = [(ids[:, a] * _MIX ^ ids[:, b]) * _MIX for a, b in self.crosses]
        return np.concatenate([ids, np.stack(made, axis=1)], axis=1)

    @property
    def row_size(self) -> int:
        """Numbers that the parameter server keeps of an id: its weight and its embedding."""
        return 1 + self.dim

    @property
    def inputs(self) -> int:
        """Of the hidden layer."""
        return self.fields * self.dim + self.sample.numeric

    @property
    def dense_size(self) -> int:
        """Numbers of the dense part."""
        return 1 + self.sample.numeric + (self.inputs + 2) * self.hidden

    def first_dense(self, seed: int = 1) -> Floats:
        """Where the dense part starts: small random weights, so that hidden units differ."""
        dense = np.zeros(self.dense_size, np.float32)
        parts = split_dense(dense, self)
        random = np.random.default_rng([seed, 4])
        parts.layer[:] = random.normal(0.0, (2.0 / self.inputs) ** 0.5, parts.layer.shape)
        parts.out[:] = random.normal(0.0, 0.1, parts.out.shape)
        return dense


class DenseParts(NamedTuple):
    """Views into the flat dense vector, in this order."""

    bias: Floats
    linear: Floats
    layer: Floats
    offsets: Floats
    out: Floats


def split_dense(dense: Floats, shape: NetShape) -> DenseParts:
    """The dense vector's parts; writing to them writes to it."""
    sizes = (1, shape.sample.numeric, shape.inputs * shape.hidden, shape.hidden)
    bias, linear, layer, offsets, out = np.split(dense, np.cumsum(sizes))
    return DenseParts(bias, linear, layer.reshape(shape.inputs, shape.hidden), offsets, out)


class Lesson(NamedTuple):
    """What one batch teaches, and how well it was known before."""

    chances: Floats
    """The model's prediction for each sample, before it learns from it."""
    loss: float
    """Mean log loss of the batch."""
    rows: Floats
    """Gradient of the loss by rows: (samples, fields, row_size)."""
    dense: Floats
    """And by the dense part."""

    @property
    def sound(self) -> bool:
        """Whether every number is one, and none is absurd: otherwise nothing may be learned from it."""
        parts = (np.float64(self.loss), self.rows, self.dense)
        return all(bool(np.abs(part).max(initial=0.0) < _ABSURD) for part in parts)


class Net(Protocol):
    """Computes a batch. Keeps no parameters: they come with each batch."""

    def learn(self, rows: Floats, numbers: Floats, labels: Floats, dense: Floats) -> Lesson:
        """Predict, compare with the labels, and differentiate."""
        ...


class NumpyNet:
    """The net on the CPU, by numpy alone."""

    def __init__(self, shape: NetShape) -> None:
        self._shape = shape

    def learn(self, rows: Floats, numbers: Floats, labels: Floats, dense: Floats) -> Lesson:
        """As `Net` has it. Overflow shows in `Lesson.sound`, not as a warning."""
        with np.errstate(all="ignore"):
            return self._learn(rows, numbers, labels, dense)

    def _learn(self, rows: Floats, numbers: Floats, labels: Floats, dense: Floats) -> Lesson:
        parts = split_dense(dense, self._shape)
        count, fields, _ = rows.shape
        embedded = np.ascontiguousarray(rows[:, :, 1:])
        total = embedded.sum(axis=1)
        inputs = np.concatenate([embedded.reshape(count, -1), numbers], axis=1)
        hidden = np.maximum(inputs @ parts.layer + parts.offsets, 0.0)
        pairs = 0.5 * (_squared(total) - _squared(inputs[:, : fields * self._shape.dim]))
        logits = parts.bias + rows[:, :, 0].sum(axis=1) + numbers @ parts.linear + pairs + hidden @ parts.out
        chances = 1.0 / (1.0 + np.exp(-logits))
        loss = float(np.mean(np.logaddexp(0.0, logits) - labels * logits)) if count else 0.0

        error = ((chances - labels) / max(count, 1)).astype(np.float32)
        dense_gradient = np.empty_like(dense)
        by = split_dense(dense_gradient, self._shape)
        by_hidden = error[:, None] * parts.out * (hidden > 0)
        by.bias[:], by.linear[:], by.out[:] = error.sum(), error @ numbers, error @ hidden
        by.layer[:], by.offsets[:] = inputs.T @ by_hidden, by_hidden.sum(axis=0)
        by_inputs = (by_hidden @ parts.layer.T)[:, : fields * self._shape.dim]
        by_embedded = np.subtract(total[:, None, :], embedded, out=embedded)
        by_embedded *= error[:, None, None]
        by_embedded += by_inputs.reshape(by_embedded.shape)
        by_rows = np.empty_like(rows)
        by_rows[:, :, 0] = error[:, None]
        by_rows[:, :, 1:] = by_embedded
        return Lesson(chances, loss, by_rows, dense_gradient)


def _squared(vectors: Floats) -> Floats:
    """The squared length of each row."""
    lengths: Floats = np.einsum("bd,bd->b", vectors, vectors)
    return lengths
