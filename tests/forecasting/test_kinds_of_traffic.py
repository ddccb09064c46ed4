"""Traffic of every kind is trained on, forecast and scored: seasons, steps, gaps, handfuls, clocks."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from forecasting.calendar import Calendar
from forecasting.evaluation import SERVED
from forecasting.history import Rates, TrafficHistory
from services.forecaster.backtesting import BacktestPlan, Outcome, run_backtest

LIGHT = ("last-value", "mean-max", "seasonal")


def wave(bins: int, season: int, *, counts: float, step_s: float, seed: int = 0) -> Rates:
    """A rhythm of `counts` a bin on average, counted."""
    mean = counts * (1 + 0.7 * np.sin(2 * np.pi * np.arange(bins) / season))
    return np.asarray(np.random.default_rng(seed).poisson(mean) / step_s, dtype=np.float64)


def backtested(history: TrafficHistory, plan: BacktestPlan) -> Outcome:
    return run_backtest(history, plan, lambda _stage, _share: None)


def well_served(outcome: Outcome) -> bool:
    """Covered, and no worse than the best light model but for what few forecasts can tell."""
    served = outcome.results[SERVED]
    return 0.88 <= served.coverage <= 0.995 and outcome.ratio("pinball", among=LIGHT) < 1.05


@pytest.mark.parametrize(
    ("step_s", "season", "seasons", "horizon_s"),
    [
        pytest.param(1.0, 300, 12, 60.0, id="seconds, a season of five minutes"),
        pytest.param(60.0, 60, 48, 600.0, id="minutes, a season of an hour"),
        pytest.param(3600.0, 168, 8, 4 * 3600.0, id="hours, a season of a week"),
    ],
)
def test_any_step_and_season_is_served(step_s: float, season: int, seasons: int, horizon_s: float) -> None:
    rates = wave(season * seasons, season, counts=200, step_s=step_s)
    plan = BacktestPlan(
        horizon_s=horizon_s, season_s=season * step_s, test_days=seasons / 4, models=("regression",)
    )

    outcome = backtested(TrafficHistory(0.0, step_s, rates), plan)

    assert well_served(outcome)
    assert outcome.ratio("mae", among=LIGHT) < 1.0


def test_counts_of_a_handful_are_covered_by_whole_counts() -> None:
    rates = wave(96 * 12, 96, counts=2, step_s=900)

    outcome = backtested(TrafficHistory(0.0, 900.0, rates), BacktestPlan(test_days=2, models=("regression",)))

    assert well_served(outcome)
    said = outcome.test.said[SERVED]
    assert (said >= 0).all()
    assert said[..., -2].max() * 900 < 30, "a handful stays a handful"


def test_a_tenth_missing_and_a_day_lost_change_little() -> None:
    rates = wave(96 * 12, 96, counts=500, step_s=900)
    torn = rates.copy()
    torn[np.random.default_rng(1).random(len(torn)) < 0.1] = np.nan
    torn[5 * 96 : 6 * 96] = np.nan
    plan = BacktestPlan(test_days=2, models=("regression",))

    whole, with_gaps = (backtested(TrafficHistory(0.0, 900.0, series), plan) for series in (rates, torn))

    assert well_served(with_gaps)
    assert with_gaps.results[SERVED].pinball < 1.3 * whole.results[SERVED].pinball


def _by_the_clock(zone: str, start: datetime, days: int) -> TrafficHistory:
    """Shops that open at eight by the clock on the wall."""
    start_s = start.timestamp()
    at = start_s + 900.0 * np.arange(96 * days)
    hours = np.array([datetime.fromtimestamp(t, UTC).astimezone(ZoneInfo(zone)).hour for t in at])
    mean = np.where((hours >= 8) & (hours < 20), 900.0, 90.0)
    return TrafficHistory(start_s, 900.0, np.random.default_rng(2).poisson(mean) / 900.0)


def test_the_day_after_the_clocks_change_is_forecast_by_the_clock() -> None:
    history = _by_the_clock("Europe/Paris", datetime(2024, 3, 10, tzinfo=UTC), 22)
    local, utc = (
        backtested(
            history, BacktestPlan(test_days=1, models=("regression",), calendar=Calendar(timezone=zone))
        )
        for zone in ("Europe/Paris", "UTC")
    )

    assert local.trained_to_s < datetime(2024, 3, 31, 1, tzinfo=UTC).timestamp() < history.end_s
    assert local.results["regression"].pinball < 0.8 * utc.results["regression"].pinball


def test_holidays_that_are_told_are_forecast_better() -> None:
    draw = np.random.default_rng(3)
    off = {5, 6, 12, 13, 19, 20, 26, 27, 9, 16, 23, 30}  # weekends, and a day off of every week
    mean = np.concatenate(
        [np.full(48, 200.0 if day in off else 900.0) * (1 + 0.5 * np.sin(np.arange(48))) for day in range(32)]
    )
    # The first day is a Monday.
    history = TrafficHistory(4 * 86_400.0, 1800.0, draw.poisson(mean) / 1800)
    days_off = [f"1970-01-{day + 5:02d}" for day in (9, 16, 23)] + ["1970-02-04"]
    losses = {}
    for told in (True, False):
        calendar = Calendar.of(days_off if told else ())
        plan = BacktestPlan(horizon_s=7200.0, test_days=3, models=("regression",), calendar=calendar)
        losses[told] = backtested(history, plan).results["regression"].mae

    assert losses[True] < losses[False]
