"""PatchTST by numpy alone: the trained network is served without torch.

The forward pass of neuralforecast's PatchTST in its evaluation mode, from its weights
by name. It is small enough (two layers, thirteen patches) that numpy answers for a
thousand topics in some tens of milliseconds, and the controller needs neither torch
(hundreds of MB) nor neuralforecast (seconds to import).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.batch import Batch
from forecasting.features import Features
from forecasting.forecast import LEVELS
from forecasting.learned import Quantiles, in_order
from forecasting.network import NetworkSpec, Weights, inputs_of, read_positions

Array = NDArray[np.float32]

LAYER = "model.backbone.encoder.layers.{}."
"""Where the weights of a layer are."""
EPSILON = np.float32(1e-5)
_ROWS = 256
"""Rows at a time: what they need stays in the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class PatchTst:
    """A trained PatchTST, or the mean of a few. `offsets` (KINDS, leads, LEVELS) are added to its answers."""

    spec: NetworkSpec
    weights: Weights
    """Of all networks: see `members_of`."""
    offsets: NDArray[np.float64]
    needs: int

    @property
    def name(self) -> str:
        return self.spec.name

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        """(rows, KINDS, leads, LEVELS)"""
        answers = self.answers(inputs_of(batch, features, self.spec))
        logs = read_positions(answers.astype(np.float64), self.spec, batch.grid)
        return in_order(features.level.to_rates(logs + self.offsets))

    def answers(self, inputs: Array) -> Array:
        """(rows, positions, LEVELS), as the torch module answers in its evaluation mode."""
        if not len(inputs):
            return np.empty((0, self.offsets.size // len(LEVELS), len(LEVELS)), dtype=np.float32)
        members = [_Member(self.spec, weights) for weights in members_of(self.weights)]
        pieces = [inputs[at : at + _ROWS] for at in range(0, len(inputs), _ROWS)]
        return np.concatenate([np.mean([one.answer(piece) for one in members], axis=0) for piece in pieces])


@dataclass(frozen=True, slots=True, eq=False)
class _Member:
    """One network."""

    spec: NetworkSpec
    weights: Weights

    def answer(self, inputs: Array) -> Array:
        scaled, last, deviation = scaled_of(inputs)
        hidden = self._linear(patches_of(scaled, self.spec), "model.backbone.W_P")
        hidden = hidden + self.weights["model.backbone.W_pos"]
        scores: Array | None = None
        layers = sum(name.endswith("self_attn.W_Q.weight") for name in self.weights)
        for layer in range(layers):
            hidden, scores = self._encoded(hidden, scores, LAYER.format(layer))
        rows = len(inputs)
        flat = hidden.transpose(0, 2, 1).reshape(rows, -1)  # the head reads (hidden, patches)
        answer = self._linear(flat, "model.head.linear")
        return np.asarray(answer * deviation + last).reshape(rows, -1, len(LEVELS))

    def _encoded(self, hidden: Array, before: Array | None, at: str) -> tuple[Array, Array]:
        attended, scores = self._attention(hidden, before, at + "self_attn.")
        hidden = self._normed(hidden + attended, at + "norm_attn.1")
        inner = self._linear(hidden, at + "ff.0")
        inner = np.maximum(inner, np.float32(0.0))
        return self._normed(hidden + self._linear(inner, at + "ff.3"), at + "norm_ffn.1"), scores

    def _attention(self, hidden: Array, before: Array | None, at: str) -> tuple[Array, Array]:
        rows, patches, width = hidden.shape
        heads = int(dict(self.spec.options)["n_heads"])

        def split(name: str) -> Array:
            return self._linear(hidden, at + name).reshape(rows, patches, heads, -1).transpose(0, 2, 1, 3)

        query, key, value = split("W_Q"), split("W_K"), split("W_V")
        scores = np.matmul(query, key.transpose(0, 1, 3, 2)) * np.float32((width // heads) ** -0.5)
        if before is not None:
            scores = scores + before
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed = np.matmul(shares, value).transpose(0, 2, 1, 3).reshape(rows, patches, width)
        return self._linear(mixed, at + "to_out.0"), scores

    def _linear(self, inputs: Array, name: str) -> Array:
        weight, bias = self.weights[name + ".weight"], self.weights[name + ".bias"]
        flat = inputs.reshape(-1, inputs.shape[-1])  # one large product is faster than many small ones
        return (flat @ weight.T + bias).reshape(*inputs.shape[:-1], -1)

    def _normed(self, hidden: Array, name: str) -> Array:
        """Batch normalisation by the statistics of training: a scale and a shift."""
        scale = self.weights[name + ".weight"] / np.sqrt(self.weights[name + ".running_var"] + EPSILON)
        shift = self.weights[name + ".bias"] - self.weights[name + ".running_mean"] * scale
        return np.asarray(hidden * scale + shift)


def members_of(weights: Weights) -> list[dict[str, NDArray[np.float32]]]:
    """The weights of each network: of the first by their plain names, of the n-th after it as `n/name`."""
    members: list[dict[str, NDArray[np.float32]]] = [{}]
    for name, value in weights.items():
        number, _, plain = name.rpartition("/")
        which = int(number or 0)
        members += [{} for _ in range(which + 1 - len(members))]
        members[which][plain] = value
    return members


def joined(members: Sequence[Weights]) -> dict[str, NDArray[np.float32]]:
    """Back again.

    >>> one, two = np.zeros(1, dtype=np.float32), np.ones(1, dtype=np.float32)
    >>> list(joined([{"a": one}, {"a": two}]))
    ['a', '1/a']
    """
    return {
        f"{number}/{name}" if number else name: value
        for number, weights in enumerate(members)
        for name, value in weights.items()
    }


def scaled_of(inputs: Array) -> tuple[Array, Array, Array]:
    """Each row less its last value, over its deviation; and both."""
    last = inputs[:, -1:]
    deviation = np.sqrt(inputs.var(axis=1, keepdims=True) + EPSILON)
    return (inputs - last) / deviation, last, deviation


def patches_of(scaled: Array, spec: NetworkSpec) -> Array:
    """(rows, patches, patch length); the last value is repeated for one stride, as the original does."""
    options = dict(spec.options)
    length, stride = int(options["patch_len"]), int(options["stride"])
    padded = np.concatenate([scaled, np.repeat(scaled[:, -1:], stride, axis=1)], axis=1)
    return np.lib.stride_tricks.sliding_window_view(padded, length, axis=1)[:, ::stride]
