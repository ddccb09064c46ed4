"""`window`, `steady-window` and `shared-window`: networks that are shown the past itself beside the features.

They read what PatchTST reads, the last sixteen hours bin by bin and what came around this
time one, two and seven seasons ago, without its attention: another view of the same past,
which errs elsewhere. The steady one is trained on fewer inputs, shaken harder. It sees less and
invents less: the better one where rows are few or rough, the worse one where a long past
is regular. The shared one has one set of weights for all leads, so that it has more to learn
them from. Which is the best, live scores tell; so there are all three.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.analogs import by_lead, without_path
from forecasting.batch import Batch
from forecasting.ensemble import Ensemble, train_ensemble
from forecasting.errors import NotEnoughHistory
from forecasting.features import Features
from forecasting.grid import Grid
from forecasting.history import Rates
from forecasting.leadwise import Leadwise, train_leadwise
from forecasting.learned import ROWS_MIN, Lessons, Quantiles, in_order, weights_of
from forecasting.network import inputs_of, spec_named
from forecasting.perceptron import of_all_leads

STEADY = "steady-window"
NOISE = {"window": 0.2, STEADY: 0.5}
"""By name: the noise on standardised inputs, while training."""
SHARED = "shared-window"
WINDOWS = (*NOISE, SHARED)
_SHARED_NOISE, _SHARED_NOISE_MAX, _MANY_ROWS = 0.2, 0.6, 8000
"""Of the shared one: the least, where rows are many; the fewer there are, the more."""
_SPEC = replace(spec_named("patchtst"), inputs=288, like=False)
"""The past as they read it; of the seasons like today they are shown more than a patch."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Networks that read the features of a row and its past."""

    name: str
    networks: Ensemble | Leadwise
    needs: int

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        """(rows, KINDS, leads, LEVELS)"""
        past = inputs_of(batch, features, _SPEC)
        if isinstance(self.networks, Leadwise):
            logs = self.networks.logs(_of_rows(features, past), _of_leads(features, batch.grid))
        else:
            logs = self.networks.logs(_seen(self.name, features, past))
        return in_order(features.level.to_rates(logs))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What has to be kept of it."""
        return self.networks.arrays()

    @classmethod
    def from_arrays(cls, name: str, arrays: dict[str, NDArray[Any]], grid: Grid) -> Window:
        kind = Leadwise if name == SHARED else Ensemble
        return cls(name, kind.from_arrays(arrays), _SPEC.needs(grid))


def train_window(
    lessons: Lessons, *, name: str = "window", steps: int | None = None, seed: int = 0
) -> Window:
    """Fit to the rows with enough past. Raises NotEnoughHistory when they are too few."""
    grid = lessons.grid
    needs = _SPEC.needs(grid)
    known = [batch.known for batch in lessons.batches]
    rows = np.flatnonzero(np.concatenate(known) >= needs) if known else np.empty(0, dtype=np.int64)
    if len(rows) < ROWS_MIN:
        raise NotEnoughHistory(name, have_s=lessons.span_s, need_s=2 * needs * grid.step_s)
    features, past = lessons.features.select(rows), _pasts(lessons)[rows]
    if name != SHARED:
        networks = train_ensemble(
            _seen(name, features, past), lessons, rows, noise=NOISE[name], steps=steps, seed=seed
        )
        return Window(name, networks, needs)
    shared = train_leadwise(
        _of_rows(features, past),
        _of_leads(features, grid),
        lessons.came[rows],
        weights_of(lessons)[rows],
        noise=min(_SHARED_NOISE * max(1.0, (_MANY_ROWS / len(rows)) ** 0.5), _SHARED_NOISE_MAX),
        steps=steps,
        seed=seed,
    )
    return Window(name, shared, needs)


def _seen(name: str, features: Features, past: NDArray[Any]) -> Rates:
    """(rows, inputs): the steady one is not shown the path of the seasons like today."""
    analogs = without_path(features.analogs) if name == STEADY else features.analogs
    return np.concatenate([of_all_leads(features), analogs, past], axis=1)


def _of_rows(features: Features, past: NDArray[Any]) -> Rates:
    """(rows, inputs): what is the same for all leads."""
    return np.concatenate([features.common, by_lead(features.analogs, _leads(features))[1], past], axis=1)


def _of_leads(features: Features, grid: Grid) -> Rates:
    """(rows, leads, inputs): what differs by lead, and the lead."""
    ahead = np.log1p(grid.leads * (grid.step_s / grid.unit_s))
    lead = np.broadcast_to(np.stack([ahead, ahead**2], axis=1), (len(features.common), len(ahead), 2))
    return np.concatenate([features.by_lead, by_lead(features.analogs, len(ahead))[0], lead], axis=2)


def _leads(features: Features) -> int:
    return int(features.by_lead.shape[1])


def _pasts(lessons: Lessons) -> Rates:
    parts, at = [], 0
    for batch in lessons.batches:
        parts.append(inputs_of(batch, lessons.features.select(slice(at, at + len(batch))), _SPEC))
        at += len(batch)
    return np.concatenate(parts)
