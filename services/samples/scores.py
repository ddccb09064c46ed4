"""How good predictions are: area under the ROC curve, and log loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def auc(labels: NDArray[Any], scores: NDArray[Any]) -> float | None:
    """The chance that a positive sample is scored above a negative one, ties counting half.

    None where there are not both kinds: no ordering can be judged then.

    >>> auc(np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.4, 0.9]))
    0.875
    """
    positive = labels > 0.5
    good, bad = scores[positive], np.sort(scores[~positive])
    if not len(good) or not len(bad):
        return None
    below = np.searchsorted(bad, good, side="left") + np.searchsorted(bad, good, side="right")
    return float(below.sum(dtype=np.float64) / (2.0 * len(good) * len(bad)))


def logloss(labels: NDArray[Any], chances: NDArray[Any]) -> float:
    """Mean negative log-likelihood, in nats; a chance of exactly 0 or 1 counts as nearly so.

    >>> round(logloss(np.array([1.0, 0.0]), np.array([0.8, 0.4])), 4)
    0.367
    """
    sure = np.clip(chances.astype(np.float64), 1e-7, 1 - 1e-7)
    return float(-np.mean(labels * np.log(sure) + (1 - labels) * np.log1p(-sure)))
