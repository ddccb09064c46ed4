"""A rule at another pace: where a day is played in minutes, five minutes of waiting last two seconds.

Many rules keep times of their own: how often they decide, how long they wait. Where traffic is
played faster than life, those would be out of all proportion. So the rule is shown the situation
in the time of life, and what it answers is told in the time that is played.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from estimator.rules.rule import Rule
from estimator.situation import Situation, Sizing, Slo
from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory

OPTION = "speed_up"
"""Every rule takes it: seconds of its own time that pass in a second."""
COUNTS = frozenset({"lag", "lag_metric", "lag_threshold", "activation_lag"})
"""Samples; all other numbers are rates, sizes and shares, or end in `_s` and are times."""


def paced(rule: Rule[Any], speed_up: float) -> Rule[Any]:
    """The same rule where `speed_up` seconds of its time pass in a second. Its memory is in its own time.

    >>> from estimator.rules.kale import kale
    >>> paced(kale(), 60.0).period_s
    1.0
    """
    if speed_up == 1.0:
        return rule

    def size(seen: Situation, memory: Any) -> tuple[Sizing, Any]:
        sizing, memory = rule.size(slowed(seen, speed_up), memory)
        return replace(sizing, numbers=_in_units(sizing.numbers, 1.0 / speed_up)), memory

    period_s = None if rule.period_s is None else rule.period_s / speed_up
    return replace(rule, size=size, period_s=period_s)


def own_time(options: Mapping[str, float], speed_up: float) -> dict[str, float]:
    """Options as told in the time that is played, for a rule that counts in its own.

    >>> own_time({"settle_s": 2.0, "utilisation": 0.8}, 60.0)
    {'settle_s': 120.0, 'utilisation': 0.8}
    """
    return _in_units(options, speed_up)


def slowed(seen: Situation, speed_up: float) -> Situation:
    """The situation in the rule's time.

    Times grow. Rates stay as they are, and so the samples that wait grow too: it is as if each
    had been split, and a rule that divides lag by time gets a rate that it can add to others.
    """
    return replace(
        seen,
        now_s=seen.now_s * speed_up,
        lag=seen.lag * speed_up,
        lag_s=seen.lag_s * speed_up,
        slo=Slo(seen.slo.fresh_within_s * speed_up, seen.slo.late_share_target),
        lead_time_s=seen.lead_time_s * speed_up,
        pause_s=seen.pause_s * speed_up,
        forecast=None if seen.forecast is None else _slowed_forecast(seen.forecast, speed_up),
        partition_lags=tuple(lag * speed_up for lag in seen.partition_lags),
        history=None if seen.history is None else _slowed_history(seen.history, speed_up),
        starting_since_s=tuple(at_s * speed_up for at_s in seen.starting_since_s),
        lead_times_s=tuple(lead_s * speed_up for lead_s in seen.lead_times_s),
    )


def _slowed_forecast(ahead: Forecast, speed_up: float) -> Forecast:
    return replace(
        ahead,
        issued_at_s=ahead.issued_at_s * speed_up,
        step_s=ahead.step_s * speed_up,
        data_age_s=ahead.data_age_s * speed_up,
        peak_s=ahead.peak_s * speed_up,
    )


def _slowed_history(past: TrafficHistory, speed_up: float) -> TrafficHistory:
    return TrafficHistory(past.start_s * speed_up, past.step_s * speed_up, past.rates)


def _in_units(numbers: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: value * factor if _grows(name) else value for name, value in numbers.items()}


def _grows(name: str) -> bool:
    return name in COUNTS or (name.endswith("_s") and not name.endswith("_per_s"))
