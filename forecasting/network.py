"""What every network has in common: its inputs, its outputs, and what has to be kept of it.

A network reads the last day (or so) of coarse bins as log ratios to the level of now.
It answers either the targets themselves (`direct`: one position a target) or the path
of coarse bins (`path`), from which rates and peaks are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.analogs import PATH_AFTER, path_of
from forecasting.batch import SEASONS_BACK, Batch
from forecasting.calendar import Calendar
from forecasting.features import Features, Level
from forecasting.forecast import LEVELS
from forecasting.grid import KINDS, Grid
from forecasting.history import Rates

Weights = Mapping[str, NDArray[Any]]

PATCH = 32
"""Coarse bins of a patch: some two hours and a half."""
_BEFORE = PATCH - PATH_AFTER
"""Coarse bins of a seasonal patch that lie before the origin; the rest lie after it."""
CALENDAR_COLUMNS = ("hour_sin", "hour_cos", "day_off")


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """An architecture of neuralforecast (or `Seq2Seq`, ours) and its size."""

    architecture: str = "PatchTST"
    inputs: int = 288
    """Coarse bins that are read."""
    seasonal: bool = False
    """Whether the first three patches are what came around the same time one season, two
    and seven seasons ago, each as a ratio to the level of then; the rest is the recent past."""
    like: bool = False
    """Whether, before those, there is the mean of the seasons that were most like today."""
    direct: bool = True
    calendar: bool = False
    """Whether hour, day off and holiday are given for every bin read and to come."""
    options: tuple[tuple[str, Any], ...] = ()
    """Passed to the architecture."""
    batch: int = 192
    """Rows of a training step."""
    learning_rate: float = 2e-3
    """At its highest, after the warm-up."""
    steps: int = 1500
    """Of training, where the budget lasts and the rows are many enough for them."""

    @property
    def name(self) -> str:
        return self.architecture.lower()

    @property
    def dropout(self) -> float:
        """The share of hidden values that is left out while training, where there are many rows."""
        return float(dict(self.options).get("dropout", 0.0))

    def with_dropout(self, share: float) -> NetworkSpec:
        """The same network, trained with another share left out."""
        return replace(self, options=tuple({**dict(self.options), "dropout": share}.items()))

    def coarse(self, grid: Grid) -> int:
        """Bins of the grid in one bin of the network: about five units."""
        return max(1, round(5 * grid.unit_s / grid.step_s))

    def positions(self, grid: Grid) -> int:
        """How many positions the network answers."""
        if self.direct:
            return KINDS * len(grid.leads)
        return -(-grid.reach // self.coarse(grid))

    def needs(self, grid: Grid) -> int:
        """Bins of history that a row must have; a season not known is read as flat."""
        return (self.inputs - self.seasons * PATCH) * self.coarse(grid)

    @property
    def seasons(self) -> int:
        """Patches that are of other seasons."""
        return 3 * self.seasonal + self.like


SPECS: Mapping[str, NetworkSpec] = {
    "patchtst": NetworkSpec(
        "PatchTST",
        inputs=320,
        seasonal=True,
        like=True,
        # Small steps and many of them: numpy pays little for a step as such.
        batch=64,
        learning_rate=6e-3,
        steps=4500,
        options=(
            ("patch_len", PATCH),
            ("stride", PATCH),
            ("hidden_size", 32),
            ("linear_hidden_size", 64),
            ("n_heads", 4),
            ("encoder_layers", 2),
            ("dropout", 0.2),
            ("fc_dropout", 0.2),
            ("activation", "relu"),
            ("revin", True),
        ),
    ),
    "nhits": NetworkSpec(
        "NHITS",
        direct=False,
        calendar=True,
        options=(
            ("mlp_units", [[128, 128]] * 3),
            ("n_freq_downsample", [6, 3, 1]),
            ("dropout_prob_theta", 0.0),
        ),
    ),
    "fedformer": NetworkSpec(
        "FEDformer",
        # It starts from the mean of what it reads, so a day would put every forecast at the day's mean:
        # twice the path that it answers is as much as it makes use of.
        inputs=36,
        direct=False,
        calendar=True,
        batch=64,
        options=(("hidden_size", 64), ("conv_hidden_size", 64), ("n_head", 8), ("modes", 16)),
    ),
    "seq2seq": NetworkSpec("Seq2Seq", direct=False, options=(("hidden_size", 48),)),
}


def spec_named(name: str) -> NetworkSpec:
    """The settings of a known network; any other name is one of neuralforecast's, with its defaults."""
    return SPECS.get(name.lower()) or NetworkSpec(name, direct=False)


def inputs_of(batch: Batch, features: Features, spec: NetworkSpec) -> NDArray[np.float32]:
    """(rows, inputs): coarse means as log ratios, oldest first."""
    level = features.level
    recent = level.to_log(_coarse_means(batch, spec, -(spec.inputs - spec.seasons * PATCH), 0))
    patches = [_like_today(recent, features.analogs)] if spec.like else []
    if spec.seasonal:
        patches += [_around_then(batch, level, spec, seasons) for seasons in (SEASONS_BACK, 2, 1)]
    return np.concatenate([*patches, recent], axis=1).astype(np.float32)


def _like_today(recent: Rates, analogs: Rates) -> Rates:
    """One patch around this time of the seasons most like today, their mean; zeros where none is known."""
    differed, ahead = path_of(analogs)
    before = recent[:, -_BEFORE:] - differed[:, -_BEFORE:]
    known = np.asarray(analogs.any(axis=1))[:, None]
    return np.where(known, np.concatenate([before, ahead], axis=1), 0.0)


def _coarse_means(batch: Batch, spec: NetworkSpec, first: int, last: int, *, back: int = 0) -> Rates:
    """Means of the coarse bins [first, last) counted from `back` bins before the end."""
    coarse = spec.coarse(batch.grid)
    edges = batch.end[:, None] - back + coarse * np.arange(first, last + 1)[None, :]
    # A season shorter than a patch reaches into what is to come: those bins repeat the last one known.
    edges = np.minimum(edges, batch.end[:, None])
    sums = batch.sums[batch.row[:, None], np.maximum(edges, 0)]
    width = np.maximum(np.diff(np.maximum(edges, 0), axis=1), 1)
    return np.asarray(np.maximum(np.diff(sums, axis=1), 0.0) / width)


def _around_then(batch: Batch, level: Level, spec: NetworkSpec, seasons: int) -> Rates:
    """One patch around the time of the origin some seasons ago; zeros where that is not known."""
    grid = batch.grid
    reach = (PATCH - _BEFORE) * spec.coarse(grid)
    back = grid.season * max(seasons, -(-reach // grid.season))
    means = _coarse_means(batch, spec, -_BEFORE, PATCH - _BEFORE, back=back)
    then = batch.mean(-grid.bins(30) - back, -back)
    offset = level.offset[:, None]
    ratios = np.log(means + offset) - np.log(then[:, None] + offset)
    known = batch.known >= back + _BEFORE * spec.coarse(grid)
    return np.where(known[:, None], ratios, 0.0)


def calendar_of(batch: Batch, calendar: Calendar, spec: NetworkSpec) -> NDArray[np.float32]:
    """(rows, inputs + positions, columns): the time of every bin read and to come."""
    grid, coarse = batch.grid, spec.coarse(batch.grid)
    bins = np.arange(-spec.inputs, spec.positions(grid))
    at_s = batch.ends_s[:, None] + bins[None, :] * coarse * grid.step_s
    turn = 2 * np.pi * calendar.local_s(at_s.ravel()).reshape(at_s.shape) / grid.season_s
    off = calendar.days_off(at_s.ravel()).reshape(at_s.shape)
    return np.stack([np.sin(turn), np.cos(turn), off], axis=2).astype(np.float32)


def read_positions(answers: Rates, spec: NetworkSpec, grid: Grid) -> Rates:
    """Log-ratio quantiles (rows, KINDS, leads, LEVELS) from answers (rows, positions, LEVELS)."""
    rows = len(answers)
    if spec.direct:
        return answers.reshape(rows, KINDS, len(grid.leads), len(LEVELS))
    coarse, last = spec.coarse(grid), answers.shape[1] - 1
    first = np.minimum(grid.leads // coarse, last)
    until = np.minimum((grid.leads + grid.width - 1) // coarse, last)
    rates = answers[:, first]
    peaks = np.stack([answers[:, a : b + 1].max(axis=1) for a, b in zip(first, until, strict=True)], axis=1)
    return np.stack([rates, peaks], axis=1)


def positions_wanted(came: Rates, batch: Batch, level: Level, spec: NetworkSpec) -> NDArray[np.float32]:
    """What the network should have answered: (rows, positions), NaN where unknown."""
    if spec.direct:
        return came.reshape(len(came), -1).astype(np.float32)
    grid, coarse = batch.grid, spec.coarse(batch.grid)
    edges = batch.end[:, None] + coarse * np.arange(spec.positions(grid) + 1)[None, :]
    inside = edges < batch.sums.shape[1]
    sums = batch.sums[batch.row[:, None], np.where(inside, edges, 0)]
    means = np.maximum(np.diff(sums, axis=1), 0.0) / coarse
    return np.where(inside[:, 1:], level.to_log(means), np.nan).astype(np.float32)
