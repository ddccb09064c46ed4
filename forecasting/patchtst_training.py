"""Train PatchTST by numpy alone: the transformer is there wherever Penstock is.

torch is gigabytes to install and seconds to import; this network has fifty thousand
weights. Forward pass and gradients are written out below, equal to those of
neuralforecast's module (tests/forecasting/test_learned.py compares both). Training is
as for every network here: our windows, the pinball loss on the very targets, a cosine
decay, clipped gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from forecasting.forecast import LEVELS
from forecasting.learned import Lessons
from forecasting.network import NetworkSpec, Weights, read_positions
from forecasting.network_lessons import (
    BUDGET_UNTOUCHED,
    EMPHASIS,
    Effort,
    NetworkLessons,
    TrainedNetwork,
    offsets_for,
)
from forecasting.patchtst import EPSILON, LAYER, Array, PatchTst, joined, members_of, patches_of, scaled_of

MOMENTUM = 0.1
"""Of the running statistics, as torch has it."""
CLIP = 1.0
WEIGHT_DECAY = 1e-3
DROPOUT_MAX, MANY_ROWS = 0.3, 8000
"""With fewer rows than that more is left out while training, up to this: few rows are soon known by heart."""

_TAUS = np.array(LEVELS, dtype=np.float32)
_STRESS = np.array(EMPHASIS, dtype=np.float32)


def train_patchtst(
    data: NetworkLessons, lessons: Lessons, spec: NetworkSpec, effort: Effort, *, start: Weights | None = None
) -> TrainedNetwork:
    """Fit, then shift each quantile so that it covers on the rows held out.

    Few rows are learned in few steps, and by heart: what is left of the steps trains further networks,
    and their mean answers. One that the budget has no room for is left out.
    """
    rows = int(np.count_nonzero(~data.last))
    taught = spec.with_dropout(min(DROPOUT_MAX, spec.dropout * max(1.0, (MANY_ROWS / max(rows, 1)) ** 0.5)))
    starts, members, losses, steps = members_of(start or {}), [], [], 0
    draws = np.random.default_rng(effort.seed).spawn(effort.members_for(rows, spec))
    for number, draw in enumerate(draws):
        if number and effort.used() * (number + 1) / number > BUDGET_UNTOUCHED:
            break
        weights = initial_weights(spec, data.wanted.shape[1], draw)
        _start_from_quantiles(weights, data)
        _warm(weights, starts[number] if number < len(starts) else {})
        loss, taken = _descend(weights, taught, data, effort, draw)
        members.append(weights)
        losses.append(loss)
        steps += taken
    weights = joined(members)
    held = np.flatnonzero(data.last)
    shape = (2, len(lessons.grid.leads), len(LEVELS))
    model = PatchTst(spec, weights, np.zeros(shape), spec.needs(lessons.grid))
    logs = read_positions(model.answers(data.inputs[held]).astype(np.float64), spec, lessons.grid)
    return TrainedNetwork(
        spec, weights, offsets_for(logs, lessons.came[data.rows[held]], spec), float(np.mean(losses)), steps
    )


def _warm(weights: dict[str, Array], start: Weights) -> None:
    """Begin where an earlier training ended, as far as shapes fit."""
    for name, value in start.items():
        if name in weights and weights[name].shape == value.shape:
            weights[name] = np.array(value, dtype=np.float32)


def initial_weights(spec: NetworkSpec, positions: int, draw: np.random.Generator) -> dict[str, Array]:
    """As torch starts linear layers and normalisations."""
    options = dict(spec.options)
    hidden, inner, patch = options["hidden_size"], options["linear_hidden_size"], options["patch_len"]
    patches = (spec.inputs - patch) // options["stride"] + 2
    weights: dict[str, Array] = {
        "model.backbone.W_pos": draw.uniform(-0.02, 0.02, (patches, hidden)).astype(np.float32)
    }

    def linear(name: str, outs: int, ins: int) -> None:
        bound = ins**-0.5
        weights[f"{name}.weight"] = draw.uniform(-bound, bound, (outs, ins)).astype(np.float32)
        weights[f"{name}.bias"] = draw.uniform(-bound, bound, outs).astype(np.float32)

    linear("model.backbone.W_P", hidden, patch)
    linear("model.head.linear", positions * len(LEVELS), hidden * patches)
    for layer in range(options["encoder_layers"]):
        at = LAYER.format(layer)
        for name in ("W_Q", "W_K", "W_V", "to_out.0"):
            linear(f"{at}self_attn.{name}", hidden, hidden)
        linear(f"{at}ff.0", inner, hidden)
        linear(f"{at}ff.3", hidden, inner)
        for name in ("norm_attn.1", "norm_ffn.1"):
            weights[f"{at}{name}.weight"] = np.ones(hidden, dtype=np.float32)
            weights[f"{at}{name}.bias"] = np.zeros(hidden, dtype=np.float32)
            weights[f"{at}{name}.running_mean"] = np.zeros(hidden, dtype=np.float32)
            weights[f"{at}{name}.running_var"] = np.ones(hidden, dtype=np.float32)
    return weights


def _start_from_quantiles(weights: dict[str, Array], data: NetworkLessons) -> None:
    """Let the untrained head answer the quantiles of what came after the last value, whatever the inputs."""
    _, last, deviation = scaled_of(data.inputs)
    moved = (data.wanted - last) / deviation
    known = ~np.isnan(moved).all(axis=0)
    bias = np.zeros((moved.shape[1], len(LEVELS)), dtype=np.float32)
    bias[known] = np.nanquantile(moved[:, known], np.array(LEVELS), axis=0).T
    weights["model.head.linear.bias"] = bias.reshape(-1)
    weights["model.head.linear.weight"] *= np.float32(0.1)


def _descend(
    weights: dict[str, Array],
    spec: NetworkSpec,
    data: NetworkLessons,
    effort: Effort,
    draw: np.random.Generator,
) -> tuple[float, int]:
    """AdamW on the weights in place; the smoothed loss and the steps taken."""
    usable = np.flatnonzero(~data.last)
    means: dict[str, Array] = {}
    squares: dict[str, Array] = {}
    smooth, step, steps = float("nan"), 0, effort.steps_for(len(usable), spec)
    while step < steps:
        share = effort.share(step, steps)
        if share >= 1:
            break
        picked = usable[draw.integers(0, len(usable), size=effort.batch_of(spec))]
        passed = Pass(spec, weights, draw=draw)
        guess = passed.forward(data.inputs[picked])
        value, slope = weighted_pinball(guess, data.wanted[picked], data.weights[picked])
        gradients = passed.backward(slope)
        norm = float(np.sqrt(sum(float(np.vdot(g, g)) for g in gradients.values())))
        shrink = np.float32(min(1.0, CLIP / max(norm, 1e-12)))
        rate, step = effort.rate(step, share, spec), step + 1
        for name, raw in gradients.items():
            gradient = raw * shrink
            mean = means.setdefault(name, np.zeros_like(gradient))
            square = squares.setdefault(name, np.zeros_like(gradient))
            mean += np.float32(0.1) * (gradient - mean)
            square += np.float32(0.001) * (gradient * gradient - square)
            size = np.sqrt(square / np.float32(1 - 0.999**step)) + np.float32(1e-8)
            weights[name] *= np.float32(1 - rate * WEIGHT_DECAY)
            weights[name] -= np.float32(rate / (1 - 0.9**step)) * mean / size
        smooth = value if step == 1 else 0.98 * smooth + 0.02 * value
        if step % 25 == 0:
            effort.tell(share, smooth)
    return smooth, step


def weighted_pinball(guess: Array, wanted: Array, row_weights: Array) -> tuple[float, Array]:
    """The mean loss and its slope by guess (rows, positions, LEVELS); unknown targets count nothing."""
    error = wanted[..., None] - guess
    known = ~np.isnan(error)
    error = np.where(known, error, np.float32(0.0))
    share = row_weights[:, None, None] * _STRESS / np.float32(error.size)
    loss = np.maximum(_TAUS * error, (_TAUS - 1) * error) * share
    slope = np.where(error > 0, -_TAUS, np.where(error < 0, 1 - _TAUS, np.float32(0.0))) * share
    return float(loss.sum()), np.asarray(slope, dtype=np.float32)


@dataclass(slots=True, eq=False)
class Pass:
    """One pass forward in training mode, and back. Moves the running statistics of `weights`."""

    spec: NetworkSpec
    weights: dict[str, Array]
    draw: np.random.Generator | None = None
    """For dropout; none without it."""
    _kept: dict[str, Array] = field(default_factory=dict)
    _gradients: dict[str, Array] = field(default_factory=dict)
    _layers: int = 0
    _heads: int = 1

    def forward(self, inputs: Array) -> Array:
        """(rows, positions, LEVELS)"""
        options = dict(self.spec.options)
        self._layers, self._heads = int(options["encoder_layers"]), int(options["n_heads"])
        scaled, last, deviation = scaled_of(inputs)
        self._kept["deviation"] = deviation
        hidden = self._linear(patches_of(scaled, self.spec), "model.backbone.W_P")
        hidden = self._dropped(hidden + self.weights["model.backbone.W_pos"], "embedded")
        scores: Array | None = None
        for layer in range(self._layers):
            hidden, scores = self._encoded(hidden, scores, LAYER.format(layer))
        self._kept["shape"] = np.array(hidden.shape)
        flat = hidden.transpose(0, 2, 1).reshape(len(inputs), -1)
        answer = self._linear(flat, "model.head.linear")
        return np.asarray(answer * deviation + last).reshape(len(inputs), -1, len(LEVELS))

    def _encoded(self, hidden: Array, before: Array | None, at: str) -> tuple[Array, Array]:
        attended, scores = self._attended(hidden, before, at + "self_attn.")
        hidden = self._normed(hidden + self._dropped(attended, at + "a"), at + "norm_attn.1")
        inner = self._linear(hidden, at + "ff.0")
        self._kept[at + "inner"] = inner
        inner = self._dropped(np.maximum(inner, np.float32(0.0)), at + "i")
        out = self._dropped(self._linear(inner, at + "ff.3"), at + "f")
        return self._normed(hidden + out, at + "norm_ffn.1"), scores

    def _attended(self, hidden: Array, before: Array | None, at: str) -> tuple[Array, Array]:
        query, key, value = (self._split(self._linear(hidden, at + name)) for name in ("W_Q", "W_K", "W_V"))
        query = query * np.float32(query.shape[-1] ** -0.5)
        scores = np.matmul(query, key.transpose(0, 1, 3, 2))
        if before is not None:
            scores = scores + before
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        for name, kept in (("q", query), ("k", key), ("v", value), ("s", shares)):
            self._kept[at + name] = kept
        return self._linear(self._joined(np.matmul(shares, value)), at + "to_out.0"), scores

    def _split(self, hidden: Array) -> Array:
        rows, patches, _ = hidden.shape
        return hidden.reshape(rows, patches, self._heads, -1).transpose(0, 2, 1, 3)

    def _joined(self, by_head: Array) -> Array:
        rows, _, patches, _ = by_head.shape
        return by_head.transpose(0, 2, 1, 3).reshape(rows, patches, -1)

    def _linear(self, inputs: Array, name: str) -> Array:
        flat = inputs.reshape(-1, inputs.shape[-1])
        self._kept[name] = flat
        out = flat @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]
        return np.asarray(out.reshape(*inputs.shape[:-1], -1))

    def _dropped(self, hidden: Array, name: str) -> Array:
        """A tenth or so set to zero, the rest scaled up: eight random bits a value are enough."""
        share = float(dict(self.spec.options)["dropout"])
        if self.draw is None or share == 0.0:
            return hidden
        cut = round(256 * share)
        kept = self.draw.integers(0, 256, size=hidden.shape, dtype=np.uint8) >= cut
        self._kept["drop" + name] = kept * np.float32(256 / (256 - cut))
        return np.asarray(hidden * self._kept["drop" + name])

    def _undropped(self, slope: Array, name: str) -> Array:
        kept = self._kept.get("drop" + name)
        return slope if kept is None else slope * kept

    def _normed(self, hidden: Array, name: str) -> Array:
        """Batch normalisation over rows and patches."""
        flat = hidden.reshape(-1, hidden.shape[-1])
        mean = _total(flat) / np.float32(len(flat))
        centred = flat - mean
        variance = _total(centred * centred) / np.float32(len(flat))
        deviation = np.sqrt(variance + EPSILON)
        unit = centred / deviation
        self._kept[name], self._kept[name + "d"] = unit, deviation
        for which, now in (
            ("running_mean", mean),
            ("running_var", variance * np.float32(len(flat) / (len(flat) - 1))),
        ):
            running = self.weights[f"{name}.{which}"]
            running += np.float32(MOMENTUM) * (now - running)
        return np.asarray(unit * self.weights[name + ".weight"] + self.weights[name + ".bias"]).reshape(
            hidden.shape
        )

    def backward(self, slope: Array) -> Mapping[str, Array]:
        """Gradients by name, from the slope of the loss by answer."""
        rows, patches, width = (int(n) for n in self._kept["shape"])
        answer = slope.reshape(rows, -1) * self._kept["deviation"]
        back = self._back_linear(answer, "model.head.linear").reshape(rows, width, patches).transpose(0, 2, 1)
        later: Array | None = None
        for layer in reversed(range(self._layers)):
            back, later = self._back_encoded(back, later, LAYER.format(layer))
        back = self._undropped(back, "embedded")
        self._gradients["model.backbone.W_pos"] = back.sum(axis=0)
        self._back_linear(back, "model.backbone.W_P")
        return self._gradients

    def _back_encoded(self, back: Array, later: Array | None, at: str) -> tuple[Array, Array]:
        """`later` is the slope by the attention scores that the next layer was given."""
        back = self._back_normed(back, at + "norm_ffn.1")
        inner = self._undropped(self._back_linear(self._undropped(back, at + "f"), at + "ff.3"), at + "i")
        back = back + self._back_linear(inner * (self._kept[at + "inner"] > 0), at + "ff.0")
        back = self._back_normed(back, at + "norm_attn.1")
        inside, scores = self._back_attended(self._undropped(back, at + "a"), later, at + "self_attn.")
        return back + inside, scores

    def _back_attended(self, back: Array, later: Array | None, at: str) -> tuple[Array, Array]:
        query, key, value, shares = (self._kept[at + name] for name in "qkvs")
        mixed = self._split(self._back_linear(back, at + "to_out.0"))
        by_share = np.matmul(mixed, value.transpose(0, 1, 3, 2))
        scores = shares * (by_share - (by_share * shares).sum(axis=-1, keepdims=True))
        if later is not None:
            scores = scores + later
        by_query = np.matmul(scores, key) * np.float32(query.shape[-1] ** -0.5)
        by_key = np.matmul(scores.transpose(0, 1, 3, 2), query)
        by_value = np.matmul(shares.transpose(0, 1, 3, 2), mixed)
        into = self._back_linear(self._joined(by_query), at + "W_Q")
        into = into + self._back_linear(self._joined(by_key), at + "W_K")
        return into + self._back_linear(self._joined(by_value), at + "W_V"), scores

    def _back_linear(self, back: Array, name: str) -> Array:
        flat = back.reshape(-1, back.shape[-1])
        self._gradients[name + ".weight"] = flat.T @ self._kept[name]
        self._gradients[name + ".bias"] = _total(flat)
        return np.asarray((flat @ self.weights[name + ".weight"]).reshape(*back.shape[:-1], -1))

    def _back_normed(self, back: Array, name: str) -> Array:
        flat, unit = back.reshape(-1, back.shape[-1]), self._kept[name]
        by_weight, by_bias = _total(flat * unit), _total(flat)
        self._gradients[name + ".weight"], self._gradients[name + ".bias"] = by_weight, by_bias
        count, scale = np.float32(len(flat)), self.weights[name + ".weight"]
        centred = flat - by_bias / count - unit * (by_weight / count)
        return np.asarray(centred * (scale / self._kept[name + "d"])).reshape(back.shape)


def _total(rows: Array) -> Array:
    """The sum of all rows: as a product it is several times as fast."""
    return np.asarray(np.ones(len(rows), dtype=np.float32) @ rows)
