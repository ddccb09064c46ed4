"""Which forecast a decision rested on, and whether it was good enough to be heeded."""

from __future__ import annotations

from dataclasses import dataclass

from forecasting.forecast import Forecast

BAD_SCORE = 0.3
"""Pinball loss at 0.95 over the mean rate. Beyond it a forecast misses a third of the traffic, or
promises seven times of it, on average: what is seen is the better guide."""


@dataclass(frozen=True, slots=True)
class ForecastUsed:
    """The forecast that a tick was given."""

    model: str
    issued_at_s: float
    score: float | None
    """Its live score: pinball loss at 0.95 over the mean rate; None before it is known."""
    trouble: str = ""
    """Why a simpler model stands in; empty when all is well."""
    heeded: bool = True
    """Whether the rule was shown it; one that has been far off lately is kept from it."""


def is_bad(forecast: Forecast) -> bool:
    """Whether it has been too far off lately to be followed. The score goes on: it may be good again."""
    return forecast.score is not None and forecast.score > BAD_SCORE


def heeded(forecast: Forecast | None) -> Forecast | None:
    """What a rule is shown."""
    return None if forecast is None or is_bad(forecast) else forecast


def used(forecast: Forecast | None) -> ForecastUsed | None:
    """For the decision."""
    if forecast is None:
        return None
    return ForecastUsed(
        forecast.model, forecast.issued_at_s, forecast.score, forecast.trouble, not is_bad(forecast)
    )
