"""Models with weights: what they are trained on, and what all of them answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from forecasting.analogs import inputs_of_analogs
from forecasting.batch import Batch, batch_at
from forecasting.calendar import Calendar
from forecasting.features import COMMON, PER_LEAD, Features, Level, describe, targets_of
from forecasting.forecast import LEVELS
from forecasting.grid import Grid
from forecasting.history import Rates, TrafficHistory

ROWS_MAX = 24_000
"""Rows to train on: more cost time and teach hardly anything."""
ROWS_MIN = 64

Quantiles = Rates
"""(rows, KINDS, leads, LEVELS) in rates: ordered, finite, not negative."""


class FleetModel(Protocol):
    """A trained model that answers for many topics in one call."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> int:
        """Bins of history below which a row's answer is worth nothing."""
        ...

    def quantiles(self, batch: Batch, features: Features) -> Quantiles: ...


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """Rows to learn from: features, what came (as log ratios, NaN where unknown), and weights."""

    grid: Grid
    features: Features
    batches: tuple[Batch, ...]
    came: Rates
    """(rows, KINDS, leads)"""

    def __len__(self) -> int:
        return len(self.came)

    @property
    def span_s(self) -> float:
        """How much of the past the row knows that knows the most."""
        return self.grid.step_s * max((int(batch.known.max()) for batch in self.batches), default=0)


def lessons_from(
    grid: Grid, histories: Mapping[str, TrafficHistory], calendar: Calendar, *, rows_max: int = ROWS_MAX
) -> Lessons:
    """Origins spread evenly over all topics and their pasts; the last target ends with its history."""
    batches, features, came = [], [], []
    per_topic = max(1, rows_max // max(len(histories), 1))
    for history in histories.values():
        first = int(np.argmax(~np.isnan(history.rates))) if history.known else len(history.rates)
        origins = np.arange(first + grid.bins(60), len(history.rates) - grid.reach + 1)
        if len(origins) == 0:
            continue
        stride = max(grid.bins(5), -(-len(origins) // per_topic))
        batch = batch_at(grid, history, origins[::-1][::stride][::-1])
        seen = describe(batch, calendar)
        batches.append(batch)
        features.append(seen)
        came.append(seen.level.to_log(targets_of(batch, history.rates)))
    return Lessons(grid, _joined(features, grid), tuple(batches), _stack(came, grid))


def _joined(parts: list[Features], grid: Grid) -> Features:
    if not parts:
        none = np.empty(0)
        return Features(
            Level(none, none),
            np.empty((0, COMMON)),
            np.empty((0, len(grid.leads), PER_LEAD)),
            np.empty((0, inputs_of_analogs(grid))),
        )
    return Features(
        Level(
            np.concatenate([part.level.now for part in parts]),
            np.concatenate([part.level.offset for part in parts]),
        ),
        np.concatenate([part.common for part in parts]),
        np.concatenate([part.by_lead for part in parts]),
        np.concatenate([part.analogs for part in parts]),
    )


def _stack(parts: list[Rates], grid: Grid) -> Rates:
    return np.concatenate(parts) if parts else np.empty((0, 2, len(grid.leads)))


def weights_of(lessons: Lessons) -> Rates:
    """By row: errors in logarithms weigh what they are in rates, within each topic.

    Topics weigh the same whatever their traffic, and a peak weighs at most five times
    the mean: one flash crowd must not be all that is learned.
    """
    if not lessons.batches:
        return np.empty(0)
    scale = lessons.features.level.now + lessons.features.level.offset
    sizes = np.cumsum([len(batch) for batch in lessons.batches])[:-1]
    parts = [part / max(float(part.mean()), 1e-300) for part in np.split(scale, sizes)]
    return np.clip(np.concatenate(parts), 0.1, 5.0)


def in_order(quantiles: Quantiles) -> Quantiles:
    """Crossing quantiles sorted."""
    assert quantiles.shape[-1] == len(LEVELS)  # noqa: S101 - a wrong shape here is a bug of ours
    return np.sort(quantiles, axis=-1)
