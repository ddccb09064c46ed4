"""Situations for tests of sizing rules."""

from __future__ import annotations

from typing import Any

from estimator.capacity import Capacity
from estimator.situation import Limits, Situation, Slo


def situation(**known: Any) -> Situation:
    """A job that keeps up at 60 % with four ready workers, but for what is `known`."""
    usual: dict[str, Any] = {
        "now_s": 0.0,
        "rate_per_s": 240.0,
        "lag": 0.0,
        "lag_s": 0.0,
        "trained_per_s": 240.0,
        "requested": 4,
        "ready": 4,
        "busy": 0.6,
        "capacity": Capacity(100.0, contention=0.0),
        "slo": Slo(),
        "limits": Limits(1, 64),
        "lead_time_s": 180.0,
        "pause_s": 0.0,
    }
    usual.update(known)
    if "busy_by_worker" not in usual and usual["busy"] is not None:
        usual["busy_by_worker"] = {f"w{i}": usual["busy"] for i in range(usual["ready"])}
    return Situation(**usual)
