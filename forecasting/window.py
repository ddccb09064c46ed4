"""`window` and `steady-window`: the perceptron's networks, shown the past itself beside the features.

They read what PatchTST reads, the last sixteen hours bin by bin and what came around this
time one, two and seven seasons ago, without its attention: another view of the same past,
which errs elsewhere. The steady one is trained on inputs shaken harder. It sees less and
invents less: the better one where rows are few or rough, the worse one where a long past
is regular. Which it is, live scores tell; so there are both.
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

WINDOWS = {"window": 0.2, "steady-window": 0.5}
"""By name: the noise on standardised inputs, while training."""
_SPEC = spec_named("patchtst")


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Networks that read the features of a row and its past."""

    name: str
    networks: Ensemble
    needs: int

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        """(rows, KINDS, leads, LEVELS)"""
        past = inputs_of(batch, features.level, _SPEC)
        raw = _seen(features, past)
        return in_order(features.level.to_rates(self.networks.logs(raw)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What has to be kept of it."""
        return self.networks.arrays()

    @classmethod
    def from_arrays(cls, name: str, arrays: dict[str, NDArray[Any]], grid: Grid) -> Window:
        return cls(name, Ensemble.from_arrays(arrays), _SPEC.needs(grid))


def train_window(
    lessons: Lessons, *, name: str = "window", steps: int | None = None, seed: int = 0
) -> Window:
    """Fit to the rows with enough past. Raises NotEnoughHistory when they are too few."""
    needs = _SPEC.needs(lessons.grid)
    known = [batch.known for batch in lessons.batches]
    rows = np.flatnonzero(np.concatenate(known) >= needs) if known else np.empty(0, dtype=np.int64)
    if len(rows) < ROWS_MIN:
        step_s = lessons.grid.step_s
        raise NotEnoughHistory(name, have_s=len(lessons) * step_s, need_s=2 * needs * step_s)
    raw = _seen(lessons.features, _pasts(lessons))[rows]
    return Window(
        name, train_ensemble(raw, lessons, rows, noise=WINDOWS[name], steps=steps, seed=seed), needs
    )


def _seen(features: Features, past: NDArray[Any]) -> Rates:
    """(rows, inputs)"""
    return np.concatenate([of_all_leads(features), features.analogs, past], axis=1)


def _pasts(lessons: Lessons) -> Rates:
    parts, level, at = [], lessons.features.level, 0
    for batch in lessons.batches:
        part = slice(at, at + len(batch))
        parts.append(inputs_of(batch, Level(level.now[part], level.offset[part]), _SPEC))
        at += len(batch)
    return np.concatenate(parts)
