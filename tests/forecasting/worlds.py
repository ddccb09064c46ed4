"""Traffic for the tests of forecasting: small, seeded, fast."""

from __future__ import annotations

from functools import cache

import numpy as np

from forecasting.calendar import Calendar
from forecasting.forecast import LEVELS
from forecasting.grid import Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.learned import Lessons, lessons_from
from forecasting.network import NetworkSpec, spec_named
from forecasting.patchtst import PatchTst
from forecasting.regression import Regression, train_regression

STEP_S = 300.0
GRID = Grid(step_s=STEP_S, horizon_s=4500.0)
DAY = 288


def rhythm(days: float, *, seed: int = 0, level: float = 20.0) -> Rates:
    """Days with counting noise."""
    at = np.arange(round(days * DAY))
    mean = level * (1.2 + np.sin(2 * np.pi * at / DAY))
    return np.asarray(np.random.default_rng(seed).poisson(mean * STEP_S) / STEP_S, dtype=np.float64)


def history(rates: Rates, *, start_s: float = 0.0) -> TrafficHistory:
    return TrafficHistory(start_s, STEP_S, rates)


@cache
def lessons(days: int = 9) -> Lessons:
    return lessons_from(GRID, {"a": history(rhythm(days))}, Calendar(), rows_max=1500)


@cache
def regression() -> Regression:
    return train_regression(lessons())


@cache
def untrained_patchtst(seed: int = 0) -> PatchTst:
    """PatchTST with random weights: laws that hold by construction hold for these too."""
    spec: NetworkSpec = spec_named("patchtst")
    options = dict(spec.options)
    hidden, inner, patch = options["hidden_size"], options["linear_hidden_size"], options["patch_len"]
    patches = spec.inputs // patch + 1
    positions = spec.positions(GRID)
    draw = np.random.default_rng(seed)

    def random(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.asarray(draw.normal(size=shape) / np.sqrt(shape[-1]), dtype=np.float32)

    weights = {
        "model.backbone.W_P.weight": random(hidden, patch),
        "model.backbone.W_P.bias": random(hidden),
        "model.backbone.W_pos": random(patches, hidden),
        "model.head.linear.weight": random(positions * len(LEVELS), hidden * patches),
        "model.head.linear.bias": random(positions * len(LEVELS)),
    }
    for layer in range(options["encoder_layers"]):
        at = f"model.backbone.encoder.layers.{layer}."
        for name in ("W_Q", "W_K", "W_V", "to_out.0"):
            weights[f"{at}self_attn.{name}.weight"] = random(hidden, hidden)
            weights[f"{at}self_attn.{name}.bias"] = random(hidden)
        for name, shape in (("ff.0", (inner, hidden)), ("ff.3", (hidden, inner))):
            weights[f"{at}{name}.weight"] = random(*shape)
            weights[f"{at}{name}.bias"] = random(shape[0])
        for name in ("norm_attn.1", "norm_ffn.1"):
            weights[f"{at}{name}.weight"] = np.ones(hidden, dtype=np.float32)
            weights[f"{at}{name}.bias"] = np.zeros(hidden, dtype=np.float32)
            weights[f"{at}{name}.running_mean"] = np.zeros(hidden, dtype=np.float32)
            weights[f"{at}{name}.running_var"] = np.ones(hidden, dtype=np.float32)
    offsets = np.zeros((2, len(GRID.leads), len(LEVELS)))
    return PatchTst(spec, weights, offsets, spec.needs(GRID))
