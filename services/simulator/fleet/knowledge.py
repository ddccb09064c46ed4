"""What is known of one-GPU rates: a profile's word at first, the job's own steps once it has run there."""

from __future__ import annotations

import numpy as np

from services.simulator.fleet.file import FleetFile
from services.simulator.fleet.world import Sizes
from services.simulator.trace import Floats

SEEN_AFTER_S = 300.0
"""Ready for so long on a type, a job has measured its own rate there."""
MEASURED_ERROR = 0.01
DEVIATIONS = 3.5
"""With hundreds of jobs and types, two deviations are exceeded every day."""


class KnownRates:
    """The same for every policy that looks at rates; none of them is told the truth."""

    def __init__(self, fleet: FleetFile, truth: Floats, *, seed: int) -> None:
        rng = np.random.default_rng([seed, 6])
        self._error = fleet.profile_error
        self._told = truth * np.exp(fleet.profile_error * rng.standard_normal(truth.shape))
        self._measured = truth * np.exp(MEASURED_ERROR * rng.standard_normal(truth.shape))
        self._ready_s = np.zeros(truth.shape)

    def seen(self, ready: Sizes, span_s: float) -> None:
        """These workers were ready for another `span_s`."""
        self._ready_s += np.where(ready > 0, span_s, 0.0)

    @property
    def rates(self) -> Floats:
        """As known now."""
        return np.where(self._ready_s >= SEEN_AFTER_S, self._measured, self._told)

    @property
    def sure(self) -> Floats:
        """The share of each rate that can be counted on against another: both may be off."""
        sure: Floats = np.exp(
            -DEVIATIONS * np.sqrt(2) * np.where(self._ready_s >= SEEN_AFTER_S, MEASURED_ERROR, self._error)
        )
        return sure
