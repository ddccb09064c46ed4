"""The error budget and the price of lateness, and the scores of forecasts."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.planner.budget import BUCKETS, LASTING_UP_TO, SWING_MAX, ErrorBudget
from estimator.planner.scores import Said, Scores

DAY_S = 86_400.0


def spent(late: float, *, days: float = 7.0) -> ErrorBudget:
    """A share of `late` in every hour of `days`."""
    return spent_more(ErrorBudget(), late, days=days)


def spent_more(budget: ErrorBudget, late: float, *, since_days: int = 0, days: float) -> ErrorBudget:
    """The same, with more days after the first ones."""
    for hour in range(since_days * 24, since_days * 24 + round(days * 24)):
        budget = budget.seen(hour * 3600.0, 1000.0, 1000.0 * late, season_s=DAY_S)
    return budget


def test_on_target_nothing_moves_the_price() -> None:
    assert spent(0.01).price(0.01) == pytest.approx(ErrorBudget().price(0.01))


def test_however_much_may_be_late_a_late_sample_is_worth_its_work() -> None:
    assert ErrorBudget().price(1.0) >= 1.0


def test_a_jump_makes_lateness_dearer_by_the_root_and_too_little_late_cheaper() -> None:
    jump = spent_more(spent(0.28, days=1.0), 0.0, since_days=1, days=6.0)

    assert jump.price(0.01) == pytest.approx(2 * ErrorBudget().price(0.01))
    assert spent(0.0025).price(0.01) == pytest.approx(ErrorBudget().price(0.01) / 2)


def test_what_is_late_day_after_day_makes_lateness_dearer_by_the_square_besides() -> None:
    assert spent(0.02).price(0.01) == pytest.approx(4 * 2**0.5 * ErrorBudget().price(0.01))


def test_two_bad_days_are_enough_to_tell_and_one_is_not() -> None:
    jump, lasts = spent(0.03, days=1.0), spent(0.03, days=2.0)

    assert jump.usual_day(0.01) == pytest.approx(0.01)
    assert lasts.usual_day(0.01) == pytest.approx(0.03)


def test_however_much_was_late_the_price_stays_within_its_swing() -> None:
    jump = spent_more(spent(1.0, days=3.0), 0.0, since_days=3, days=4.0)

    assert jump.price(0.01) == pytest.approx(SWING_MAX * ErrorBudget().price(0.01))
    assert spent(0.0).price(0.01) == pytest.approx(ErrorBudget().price(0.01) / SWING_MAX)


def test_what_lasts_makes_nothing_dearer_than_is_worth_it() -> None:
    assert spent(0.2).price(0.01) == pytest.approx(LASTING_UP_TO)
    assert spent(0.02).price(0.0005) == pytest.approx(SWING_MAX * ErrorBudget().price(0.0005)), (
        "dear as it is"
    )


def test_one_bad_day_of_a_new_job_is_no_panic() -> None:
    assert spent(0.02, days=1.0).price(0.01) < 1.5 * ErrorBudget().price(0.01)


@pytest.mark.parametrize("back_s", [1.0, 7200.0, 86_400.0])
def test_a_clock_set_back_does_not_forget_the_week(back_s: float) -> None:
    week = spent(0.05)
    now_s = week.bucket * DAY_S / 4

    after = week.seen(now_s - back_s, 1.0, 0.0, season_s=DAY_S)

    assert after.late_share(0.01) == pytest.approx(0.05, rel=0.01)
    assert after.seen(now_s + DAY_S / 4, 1.0, 0.0, season_s=DAY_S).bucket == week.bucket + 1


def test_after_a_week_it_is_forgotten() -> None:
    budget = spent_more(spent(0.5, days=1.0), 0.0, since_days=1, days=8.0)

    assert budget.late_share(0.01) == 0.0


@given(
    late=st.floats(0, 1), days=st.sampled_from([1.0, 3.0]), tight=st.floats(0.0005, 0.1),
    loose=st.floats(1.0, 10.0),
)  # fmt: skip
def test_a_tighter_target_never_makes_lateness_cheaper(
    late: float, days: float, tight: float, loose: float
) -> None:
    budget = spent(late, days=days)

    assert budget.price(tight) >= budget.price(min(tight * loose, 1.0)) * (1 - 1e-9)


@given(steps=st.lists(st.floats(-1e6, 1e7), max_size=60))
def test_it_stays_small_whatever_the_clock_does(steps: list[float]) -> None:
    budget, now_s = ErrorBudget(), 0.0
    for step in steps:
        now_s += step
        budget = budget.seen(now_s, 1.0, 0.5, season_s=DAY_S)

    assert len(budget.trained) == len(budget.late) <= BUCKETS


def _scored(errors: Iterable[tuple[float, float]]) -> Scores:
    scores = Scores()
    for minute, (own, told) in enumerate(errors):
        scores = scores.said(Said(60.0 * minute, own=1.0 + own, given=1.0 + told, variance=0.01))
        scores = scores.seen(60.0 * minute, 1.0)
    return scores


def test_a_given_forecast_that_errs_by_itself_is_mixed_in() -> None:
    scores = _scored([(0.1, -0.1), (0.1, 0.1)] * 50)

    assert scores.trust == pytest.approx(0.5, abs=0.02)
    assert not scores.is_bad


def test_a_given_forecast_that_errs_alike_and_more_is_not_heeded() -> None:
    assert _scored([(0.1, 0.12), (-0.1, -0.12)] * 50).trust == 0.0


def test_a_given_forecast_that_is_right_is_followed() -> None:
    assert _scored([(0.1, 0.0), (-0.1, 0.0)] * 50).trust == pytest.approx(1.0)


def test_a_given_forecast_that_errs_by_itself_makes_the_planner_surer() -> None:
    assert _scored([(0.1, -0.1), (0.1, 0.1)] * 50).narrowing == pytest.approx(0.71, abs=0.02)


def test_one_that_errs_alike_does_not() -> None:
    assert _scored([(0.1, 0.12), (-0.1, -0.12)] * 50).narrowing == 1.0


def test_however_right_it_has_been_futures_keep_half_their_width() -> None:
    assert _scored([(0.1, 0.0), (-0.1, 0.0)] * 50).narrowing == 0.5


def test_a_given_forecast_decides_nothing_before_it_was_scored_often() -> None:
    assert _scored([(0.1, 0.0), (-0.1, 0.0)] * 10).trust == 0.0


def test_a_forecast_far_off_for_long_is_bad_and_recovers() -> None:
    def after(scores: Scores, minutes: range, own: float) -> Scores:
        for minute in minutes:
            scores = scores.said(Said(60.0 * minute, own=own, given=None, variance=0.01)).seen(
                60.0 * minute, 1.0
            )
        return scores

    off = after(Scores(), range(300), own=3.0)

    assert off.is_bad
    assert not after(off, range(300, 900), own=1.05).is_bad
