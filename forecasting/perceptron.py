"""`perceptron`: small networks on the same features as the regression.

They see the features of all leads at once and may bend where the regression is a line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecasting.batch import Batch
from forecasting.ensemble import Ensemble, train_ensemble
from forecasting.features import Features
from forecasting.history import Rates
from forecasting.learned import Lessons, Quantiles, in_order


@dataclass(frozen=True, slots=True, eq=False)
class Perceptron:
    """Networks that read the features of a row."""

    networks: Ensemble
    needs: int = 2

    @property
    def name(self) -> str:
        return "perceptron"

    def quantiles(self, batch: Batch, features: Features) -> Quantiles:
        """(rows, KINDS, leads, LEVELS)"""
        del batch
        return in_order(features.level.to_rates(self.networks.logs(of_all_leads(features))))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What has to be kept of it."""
        return self.networks.arrays()

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Perceptron:
        return cls(Ensemble.from_arrays(arrays))


def of_all_leads(features: Features) -> Rates:
    """(rows, inputs): what is common to the leads once, then what differs, lead by lead."""
    rows = len(features.common)
    return np.concatenate([features.common, features.by_lead.reshape(rows, -1)], axis=1)


def train_perceptron(
    lessons: Lessons, *, batch: int = 256, steps: int | None = None, seed: int = 0
) -> Perceptron:
    """Fit to all rows."""
    raw = of_all_leads(lessons.features)
    return Perceptron(
        train_ensemble(raw, lessons, np.arange(len(lessons)), batch=batch, steps=steps, seed=seed)
    )
