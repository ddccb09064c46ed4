"""What every network is trained on, how much, and what comes out of it: arrays, no framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.calendar import Calendar
from forecasting.errors import NotEnoughHistory
from forecasting.forecast import LEVELS
from forecasting.history import Rates
from forecasting.learned import ROWS_MIN, Lessons, weights_of
from forecasting.network import NetworkSpec, Weights, calendar_of, inputs_of, positions_wanted

EPOCHS_MAX = 30
"""A network that sees few rows more often than this learns them by heart."""
MEMBERS_MAX = 4
"""Networks that are averaged where each takes few steps."""
BUDGET_UNTOUCHED = 0.5
"""As long as no more than this share of the budget is used, it leaves no trace in the weights."""
STEPS_CONVERGED = 20_000
"""More than any network here needs until it has converged."""
EMPHASIS = (1.0, 2.0, 1.0, 3.0, 1.0)
"""By level: what is scored and planned with is the median and the 0.95 quantile."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much training: at most `steps`, and no longer than `used` says (1 = the budget is spent)."""

    steps: int | None = None
    """As the network's settings say when None."""
    batch: int | None = None
    """Rows a step; as the network's settings say when None."""
    learning_rate: float | None = None
    """At its highest; as the network's settings say when None."""
    used: Callable[[], float] = lambda: 0.0
    tell: Callable[[float, float], None] = lambda _share, _loss: None
    """Called now and then with the share done and the loss."""
    seed: int = 0
    until_converged: bool = False
    """Whether to go on until the loss on rows held out stops falling (`steps` and `used` still bound it);
    for networks that torch trains."""

    def batch_of(self, spec: NetworkSpec) -> int:
        """Rows a step."""
        return spec.batch if self.batch is None else self.batch

    def steps_for(self, rows: int, spec: NetworkSpec) -> int:
        """No more passes over few rows than `EPOCHS_MAX`."""
        return min(self.steps_of(spec), max(EPOCHS_MAX * rows // self.batch_of(spec), 100))

    def steps_of(self, spec: NetworkSpec) -> int:
        """The most there may be."""
        return spec.steps if self.steps is None else self.steps

    def members_for(self, rows: int, spec: NetworkSpec) -> int:
        """As many networks as there are steps for; one where the number of steps is given.

        >>> spec = NetworkSpec(steps=4500, batch=64)
        >>> [Effort().members_for(rows, spec) for rows in (500, 2500, 4000, 20_000)]
        [4, 3, 2, 1]
        """
        if self.steps is not None:
            return 1
        return min(spec.steps // self.steps_for(rows, spec), MEMBERS_MAX)

    def share(self, step: int, steps: int) -> float:
        """How much of the training is done: by steps, and by the budget only once half of it is spent.

        A budget that is not going to bind must not touch the learning rate: CPU time is never twice the
        same, and the same seed is to give the same weights.
        """
        return max(step / steps, (self.used() - BUDGET_UNTOUCHED) / (1 - BUDGET_UNTOUCHED))

    def rate(self, step: int, share: float, spec: NetworkSpec) -> float:
        """The learning rate: a short warm-up, then a cosine decay to nothing."""
        highest = spec.learning_rate if self.learning_rate is None else self.learning_rate
        return float(highest * min(1.0, step / 50 + 0.02) * 0.5 * (1 + np.cos(np.pi * share)))


@dataclass(frozen=True, slots=True, eq=False)
class TrainedNetwork:
    """Weights by name, and log offsets by (KINDS, leads, LEVELS) that made its quantiles cover."""

    spec: NetworkSpec
    weights: Weights
    offsets: NDArray[np.float64]
    loss: float
    steps: int
    converged: bool = False
    """Whether the loss on rows held out had stopped falling: more training would not have helped."""


@dataclass(frozen=True, slots=True, eq=False)
class NetworkLessons:
    """Rows as a network reads them."""

    inputs: NDArray[np.float32]
    calendar: NDArray[np.float32] | None
    wanted: NDArray[np.float32]
    """(rows, positions), NaN where unknown."""
    weights: NDArray[np.float32]
    rows: NDArray[np.int64]
    """Which lessons they are."""
    last: NDArray[np.bool_]
    """The last tenth of every topic's past: held out for the offsets."""


def network_lessons(lessons: Lessons, spec: NetworkSpec, calendar: Calendar) -> NetworkLessons:
    """The lessons with enough history before them. Raises NotEnoughHistory when they are too few."""
    inputs, times, wanted, last, enough = [], [], [], [], []
    at = 0
    for batch in lessons.batches:
        part = slice(at, at + len(batch))
        at += len(batch)
        features = lessons.features.select(part)
        inputs.append(inputs_of(batch, features, spec))
        if spec.calendar:
            times.append(calendar_of(batch, calendar, spec))
        wanted.append(positions_wanted(lessons.came[part], batch, features.level, spec))
        enough.append(batch.known >= spec.needs(lessons.grid))
        last.append(np.arange(len(batch)) >= 0.9 * len(batch))
    rows = np.flatnonzero(np.concatenate(enough)) if enough else np.empty(0, dtype=np.int64)
    if len(rows) < ROWS_MIN:
        need_s = 2 * spec.needs(lessons.grid) * lessons.grid.step_s
        raise NotEnoughHistory(spec.name, have_s=lessons.span_s, need_s=need_s)
    return NetworkLessons(
        np.concatenate(inputs)[rows],
        np.concatenate(times)[rows] if times else None,
        np.concatenate(wanted)[rows],
        weights_of(lessons)[rows].astype(np.float32),
        rows,
        np.concatenate(last)[rows],
    )


def offsets_for(logs: Rates, came: Rates, spec: NetworkSpec) -> NDArray[np.float64]:
    """By (KINDS, leads, LEVELS): how far each quantile was off, in logarithms, on rows held out."""
    offsets = np.zeros(logs.shape[1:])
    if len(logs) < ROWS_MIN:
        return offsets
    for q, level in enumerate(LEVELS):
        error = came - logs[..., q]
        known = ~np.isnan(error).all(axis=0)
        offsets[known, q] = np.nanquantile(error[:, known], level, axis=0)
    # A direct network was trained on these targets: half of what a tenth of the past says is noise.
    return np.asarray(np.clip(offsets, -1.0, 1.0) * (0.5 if spec.direct else 1.0))
