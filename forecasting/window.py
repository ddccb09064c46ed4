"""`window`: the perceptron's networks, shown the past itself beside the features.

They read what PatchTST reads, the last sixteen hours bin by bin and what came around this
time one, two and seven seasons ago, without its attention: another view of the same past,
which errs elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.batch import Batch
from forecasting.ensemble import Ensemble, train_ensemble
from forecasting.errors import NotEnoughHistory
from forecasting.features import Features, Level
from forecasting.grid import Grid
from forecasting.history import Rates
from forecasting.learned import ROWS_MIN, Lessons, Quantiles, in_order
from forecasting.network import inputs_of, spec_named
from forecasting.perceptron import of_all_leads

_SPEC = spec_named("patchtst")


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Networks that read the features of a row and its past."""

    networks: Ensemble
    needs: int

    @property
    def name(self) -> str:
        return "window"

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        """(rows, KINDS, leads, LEVELS)"""
        past = inputs_of(batch, features.level, _SPEC)
        raw = np.concatenate([of_all_leads(features), past], axis=1)
        return in_order(features.level.to_rates(self.networks.logs(raw)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What has to be kept of it."""
        return self.networks.arrays()

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], grid: Grid) -> Window:
        return cls(Ensemble.from_arrays(arrays), _SPEC.needs(grid))


def train_window(lessons: Lessons, *, seed: int = 0) -> Window:
    """Fit to the rows with enough past. Raises NotEnoughHistory when they are too few."""
    needs = _SPEC.needs(lessons.grid)
    known = [batch.known for batch in lessons.batches]
    rows = np.flatnonzero(np.concatenate(known) >= needs) if known else np.empty(0, dtype=np.int64)
    if len(rows) < ROWS_MIN:
        step_s = lessons.grid.step_s
        raise NotEnoughHistory("window", have_s=len(lessons) * step_s, need_s=2 * needs * step_s)
    raw = np.concatenate([of_all_leads(lessons.features), _pasts(lessons)], axis=1)[rows]
    return Window(train_ensemble(raw, lessons, rows, seed=seed), needs)


def _pasts(lessons: Lessons) -> Rates:
    parts, level, at = [], lessons.features.level, 0
    for batch in lessons.batches:
        part = slice(at, at + len(batch))
        parts.append(inputs_of(batch, Level(level.now[part], level.offset[part]), _SPEC))
        at += len(batch)
    return np.concatenate(parts)
