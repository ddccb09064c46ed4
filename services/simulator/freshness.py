"""What training late costs in accuracy, where that was measured: AUC against delay, and what a run loses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from services.simulator import layout as at
from services.simulator.trace import Floats


def delays_s() -> Floats:
    """The delay that each bin of a run's histogram stands for: seconds first, then minutes."""
    fine = np.arange(at.FINE_BINS, dtype=np.float64)
    coarse = at.FINE_BINS + 60.0 * np.arange(at.DELAY_BINS - at.FINE_BINS, dtype=np.float64)
    return np.concatenate([fine, coarse])


def expected_auc_loss(
    auc_by_delay_s: Mapping[float, float], delays: Floats, *, stretch: float = 1.0
) -> float | None:
    """How much AUC a run gives away against training at once, every sample weighing the same.

    `delays` is a run's histogram (layout.py); where the run was stretched in time, so are its delays.
    Between two measured delays the curve is straight, beyond the last it is flat: what nobody measured is
    not made up, so long delays may cost more than is told. None when nothing is known or trained.

    >>> run = np.zeros(at.DELAY_BINS)
    >>> run[0], run[30] = 3.0, 1.0
    >>> round(expected_auc_loss({0.0: 0.80, 60.0: 0.70}, run), 4)
    0.0125
    """
    total = float(delays.sum())
    if not auc_by_delay_s or total <= 0:
        return None
    known = sorted(auc_by_delay_s.items())
    told = np.interp(delays_s() / stretch, [delay for delay, _ in known], [auc for _, auc in known])
    return float(known[0][1] - told @ delays / total)
