"""Hours and days off, where the traffic is made."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from forecasting.calendar import Calendar


def at(text: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()])


def test_summer_time_moves_the_clock_on_the_wall() -> None:
    paris = Calendar(timezone="Europe/Paris")

    assert paris.local_s(at("2026-01-15T12:00"))[0] - at("2026-01-15T12:00")[0] == 3600
    assert paris.local_s(at("2026-07-15T12:00"))[0] - at("2026-07-15T12:00")[0] == 7200


def test_weekends_and_holidays_are_days_off_by_local_midnight() -> None:
    calendar = Calendar.of(["2026-12-25"], "Europe/Paris")

    assert calendar.days_off(at("2026-12-24T23:30"))[0] == 1  # half past midnight in Paris
    assert calendar.days_off(at("2026-12-24T22:30"))[0] == 0
    assert calendar.days_off(at("2026-12-26T12:00"))[0] == 1  # a Saturday
