"""Traffic and situations for tests of the planner."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.capacity import Capacity
from estimator.situation import Limits, Situation, Slo
from forecasting.history import TrafficHistory

NOW_S = 1_000_000_000.0 - 1_000_000_000.0 % 86_400
BIN_S = 60.0


def history(rates: NDArray[np.float64], *, end_s: float = NOW_S, step_s: float = BIN_S) -> TrafficHistory:
    """A history that ends at `end_s`."""
    return TrafficHistory(start_s=end_s - step_s * len(rates), step_s=step_s, rates=rates)


def daily(
    days: float = 3.0, *, mean: float = 1000.0, swing: float = 0.5, noise: float = 0.03, seed: int = 1
) -> NDArray[np.float64]:
    """Minutes of days that rise and fall, the last one ending where a day ends."""
    minutes = np.arange(-round(days * 1440), 0)
    shape = 1 + swing * np.sin(2 * math.pi * minutes / 1440)
    rates: NDArray[np.float64] = (
        mean * shape * np.exp(noise * np.random.default_rng(seed).standard_normal(len(minutes)))
    )
    return rates


def planning(rates: NDArray[np.float64], **known: Any) -> Situation:
    """Ten seconds into the minute after `rates`, which goes on at the last rate; `known` differs."""
    last = float(rates[-1])
    usual: dict[str, Any] = {
        "now_s": NOW_S + 10.0,
        "rate_per_s": last,
        "lag": 0.0,
        "lag_s": 0.0,
        "trained_per_s": last,
        "requested": 10,
        "busy": 0.7,
        "capacity": Capacity(100.0, contention=0.0),
        "slo": Slo(60.0, 0.01),
        "limits": Limits(1, 200),
        "lead_time_s": 180.0,
        "pause_s": 0.0,
        "history": history(rates),
    }
    usual.update(known)
    usual.setdefault("ready", usual["requested"])
    return Situation(**usual)
