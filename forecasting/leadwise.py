"""Networks that answer every lead by the same weights, and the mean of a few of them.

A row of the past counts once for every lead: where rows are few there is more to learn from, and
neighbouring leads do not contradict each other. The past is read once a row, what differs by
lead is added to it, and only the constant of the answer is the lead's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.descent import Descent, pinball_slope
from forecasting.ensemble import HIDDEN, Layers, Single, standardised
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS
from forecasting.history import Rates

MEMBERS = 4
BATCH = 64
"""Rows of a step; each is seen at all leads."""
EPOCHS = 10
STEPS_MIN, STEPS_MAX = 300, 1500
_NAMES = ("of_row", "of_lead", "first_bias", "second", "second_bias", "last", "last_bias")
_LEAK = np.float32(0.05)


@dataclass(frozen=True, slots=True, eq=False)
class Leadwise:
    """Networks of two hidden layers, and how both kinds of inputs are standardised."""

    members: tuple[Layers, ...]
    centre: Rates
    spread: Rates
    lead_centre: Rates
    lead_spread: Rates

    def logs(self, raw: Rates, by_lead: Rates) -> Rates:
        """Log-ratio quantiles (rows, KINDS, leads, LEVELS) of inputs (rows, n) and (rows, leads, m)."""
        rows = standardised(raw, self.centre, self.spread)
        leads = standardised(by_lead, self.lead_centre, self.lead_spread)
        mean = np.mean([_forward(layers, rows, leads)[-1] for layers in self.members], axis=0)
        shaped = mean.reshape(*by_lead.shape[:2], KINDS, len(LEVELS)).astype(np.float64)
        return np.asarray(shaped.transpose(0, 2, 1, 3))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What has to be kept of it."""
        kept: dict[str, NDArray[Any]] = {
            "centre": self.centre,
            "spread": self.spread,
            "lead_centre": self.lead_centre,
            "lead_spread": self.lead_spread,
        }
        for i, layers in enumerate(self.members):
            kept |= {f"{name}.{i}": layer for name, layer in zip(_NAMES, layers, strict=True)}
        return kept

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Leadwise:
        count = sum(name.startswith("of_row.") for name in arrays)
        members = tuple(
            tuple(np.asarray(arrays[f"{name}.{i}"], dtype=np.float32) for name in _NAMES)
            for i in range(count)
        )
        return cls(members, arrays["centre"], arrays["spread"], arrays["lead_centre"], arrays["lead_spread"])


def train_leadwise(
    raw: Rates,
    by_lead: Rates,
    came: Rates,
    weights: Rates,
    *,
    noise: float,
    steps: int | None = None,
    seed: int = 0,
) -> Leadwise:
    """Back-propagation of the pinball loss on all leads of a row at once, for exactly `steps` where given.

    `came` is (rows, KINDS, leads), NaN where unknown; `noise`, in standard deviations, is on the inputs.
    """
    centre, spread = raw.mean(axis=0), raw.std(axis=0) + 1e-6
    lead_centre, lead_spread = by_lead.mean(axis=(0, 1)), by_lead.std(axis=(0, 1)) + 1e-6
    rows = standardised(raw, centre, spread)
    leads = standardised(by_lead, lead_centre, lead_spread)
    wanted = np.ascontiguousarray(came.transpose(0, 2, 1))  # (rows, leads, KINDS)
    count = steps or min(max(STEPS_MIN, EPOCHS * len(rows) // BATCH), STEPS_MAX)

    def trained(draw: np.random.Generator) -> Layers:
        descent = Descent(_start(rows.shape[1], wanted, leads.shape[2], draw), rate=2e-3, decay=0.01)
        for step in range(count):
            picked = draw.integers(0, len(rows), size=BATCH)
            row, lead = (_shaken(inputs[picked], noise, draw) for inputs in (rows, leads))
            slopes = _gradients(descent.weights, row, lead, wanted[picked], weights[picked])
            descent.step(slopes, share=step / count)
        return tuple(np.asarray(layer, dtype=np.float32) for layer in descent.weights)

    draws = np.random.default_rng(seed).spawn(MEMBERS)
    return Leadwise(tuple(trained(draw) for draw in draws), centre, spread, lead_centre, lead_spread)


def _shaken(inputs: Single, noise: float, draw: np.random.Generator) -> Single:
    return inputs + np.float32(noise) * draw.standard_normal(size=inputs.shape, dtype=np.float32)


def _start(of_row: int, wanted: Rates, of_lead: int, draw: np.random.Generator) -> list[Single]:
    """Random hidden layers; an answer that starts from the quantiles of what came, lead by lead."""
    usual = np.zeros((len(LEVELS), *wanted.shape[1:]))  # of a target that never came, nothing is known
    known = ~np.isnan(wanted).all(axis=0)
    usual[:, known] = np.nanquantile(wanted[:, known], np.array(LEVELS), axis=0)
    inputs, outputs = of_row + of_lead, KINDS * len(LEVELS)
    layers = [
        draw.normal(size=(of_row, HIDDEN)) * np.sqrt(2 / inputs),
        draw.normal(size=(of_lead, HIDDEN)) * np.sqrt(2 / inputs),
        np.zeros(HIDDEN),
        draw.normal(size=(HIDDEN, HIDDEN)) * np.sqrt(2 / HIDDEN),
        np.zeros(HIDDEN),
        draw.normal(size=(HIDDEN, outputs)) * 0.01,
        usual.transpose(1, 2, 0).reshape(-1, outputs),
    ]
    return [np.asarray(layer, dtype=np.float32) for layer in layers]


def _forward(layers: Sequence[NDArray[Any]], rows: Single, leads: Single) -> tuple[Single, Single, Single]:
    """Both hidden layers (leaky rectifiers), a row for every lead, and the answer (rows, leads, outputs)."""
    of_row, of_lead, first_bias, second_matrix, second_bias, last, last_bias = layers
    count = leads.shape[1]
    by_lead = (leads.reshape(-1, leads.shape[2]) @ of_lead).reshape(len(rows), count, -1)
    first = (by_lead + (rows @ of_row + first_bias)[:, None, :]).reshape(len(rows) * count, -1)
    first = np.maximum(first, _LEAK * first)
    second = first @ second_matrix + second_bias
    second = np.maximum(second, _LEAK * second)
    return first, second, (second @ last).reshape(len(rows), count, -1) + last_bias


def _gradients(
    layers: Sequence[NDArray[Any]], rows: Single, leads: Single, came: Rates, weights: Rates
) -> list[NDArray[Any]]:
    first, second, answer = _forward(layers, rows, leads)
    guess = answer.reshape(*came.shape, len(LEVELS))
    slope = pinball_slope(guess, came) * (weights / (len(rows) * came.shape[1]))[:, None, None, None]
    by_answer = np.asarray(slope, dtype=np.float32).reshape(len(second), -1)
    into_second = (by_answer @ layers[5].T) * np.where(second > 0, np.float32(1.0), _LEAK)
    into_first = (into_second @ layers[3].T) * np.where(first > 0, np.float32(1.0), _LEAK)
    of_rows = into_first.reshape(len(rows), -1, into_first.shape[1]).sum(axis=1)
    return [
        rows.T @ of_rows,
        leads.reshape(-1, leads.shape[2]).T @ into_first,
        of_rows.sum(axis=0),
        first.T @ into_second,
        into_second.sum(axis=0),
        second.T @ by_answer,
        by_answer.reshape(len(rows), came.shape[1], -1).sum(axis=0),
    ]
