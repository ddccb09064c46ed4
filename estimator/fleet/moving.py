"""What a job says to the fleet of types that it is not on, and of a backlog that is late already."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rates = NDArray[np.float64]

SPAN_S = 900.0
"""Over which a move must pay, and a backlog that is late anyway is drained."""


def kept_by_move(start_s: float, drain_s: float = 0.0) -> float:
    """The share of the next quarter of an hour that is left to train in after a move.

    >>> kept_by_move(90.0)
    0.9
    """
    return 1.0 - min((start_s + drain_s) / SPAN_S, 0.9)


def with_move(curve: Rates, demand_per_s: float, *, kept: float, guaranteed: int) -> Rates:
    """What a job would train of its demand on another type, the move there included.

    So a job whose demand is met moves only where that lets others have much more. `guaranteed` is what is
    promised to it on that type: a promise is worth what it is, however far away.

    >>> with_move(np.array([0.0, 100.0, 200.0, 300.0]), 250.0, kept=0.9, guaranteed=1).tolist()
    [0.0, 100.0, 180.0, 225.0]
    """
    moved: Rates = kept * np.minimum(curve, demand_per_s)
    moved[: guaranteed + 1] = curve[: guaranteed + 1]
    risen: Rates = np.maximum.accumulate(moved)
    return risen


def late_demand(coming_per_s: float, backlog: float) -> float:
    """What a job that is late already should be able to train: what comes, and its backlog in time.

    Alone it would drain at once. But its samples are late anyway, others' still are not, and a wish for a
    hundred GPUs would never be met.
    """
    return coming_per_s + backlog / SPAN_S


def fewest(curve: Rates, rate_per_s: float) -> int:
    """The fewest workers that train so much; all there are where none do. `curve` rises.

    >>> fewest(np.array([0.0, 100.0, 200.0]), 150.0), fewest(np.array([0.0, 100.0]), 150.0)
    (2, 1)
    """
    return min(int(np.searchsorted(curve, rate_per_s * (1 - 1e-9))), len(curve) - 1)
