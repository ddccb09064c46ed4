"""What is lent is back in time: at the stated quantile, whatever the forecast's errors within it."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.fleet import InvalidFleet, JobId
from estimator.fleet.lending import LendingTerms, Loan, Neighbourhood, Owner, loan_of
from forecasting.forecast import LEVELS, Forecast
from tests.estimator.fleet.fleets import linear

JOB = JobId("ads", "clicks")
STEP_S = 60.0


def ahead(rates: list[float], *, levels: tuple[float, ...] = (0.95,)) -> Forecast:
    """Rates by step from time 0, the same at every level."""
    return Forecast(0.0, STEP_S, np.array([rates] * len(levels)), "made-up", levels=levels)


def owner(forecast: Forecast | None, *, held: int = 10, wished: int = 0, lent: int = 0) -> Owner:
    return Owner(JOB, held, linear(10.0, 20), forecast, lead_time_s=120.0, wished=wished, lent=lent)


def test_what_the_owner_needs_before_a_loan_could_be_back_is_not_lent() -> None:
    rise = ahead([20.0, 20.0, 60.0] + [60.0] * 20)
    terms = LendingTerms(return_s=60.0, useful_s=0.0)

    assert loan_of(owner(rise), terms, now_s=0.0).workers == 4


def test_a_rise_beyond_return_and_lead_time_may_be_waited_for() -> None:
    rise = ahead([20.0] * 10 + [90.0] * 20)
    brief = LendingTerms(return_s=60.0, useful_s=0.0)

    assert loan_of(owner(rise), brief, now_s=0.0).workers == 8
    assert loan_of(owner(rise), brief, now_s=7 * STEP_S).workers == 1


def test_a_loan_that_would_be_called_back_soon_is_not_begun_and_one_that_is_out_is_kept() -> None:
    rise = ahead([20.0] * 10 + [90.0] * 20)
    terms = LendingTerms(return_s=60.0, useful_s=600.0)

    assert loan_of(owner(rise), terms, now_s=0.0).workers == 1
    assert loan_of(owner(rise, lent=6), terms, now_s=0.0).workers == 6
    assert loan_of(owner(rise, lent=9), terms, now_s=0.0).workers == 8  # one comes back


def test_without_a_forecast_nothing_is_lent() -> None:
    assert loan_of(owner(None, lent=3), LendingTerms(), now_s=0.0) == Loan(JOB, 0, 10)


def test_what_is_wished_now_is_not_lent_whatever_the_forecast_says() -> None:
    assert loan_of(owner(ahead([0.0] * 5), wished=7), LendingTerms(), now_s=0.0).workers == 3


def test_a_demand_that_no_count_carries_keeps_everything() -> None:
    assert loan_of(owner(ahead([1e6] * 5)), LendingTerms(), now_s=0.0).workers == 0


@pytest.mark.parametrize("terms", [{"level": 1.0}, {"return_s": -1.0}, {"useful_s": float("nan")}])
def test_terms_that_cannot_be_are_refused(terms: dict[str, float]) -> None:
    with pytest.raises(InvalidFleet):
        LendingTerms(**terms)


@given(
    rates=st.lists(st.floats(0, 150), min_size=1, max_size=40),
    lent=st.integers(0, 10),
    wished=st.integers(0, 12),
)
def test_loan_and_need_never_exceed_the_hold(rates: list[float], lent: int, wished: int) -> None:
    loan = loan_of(owner(ahead(rates), lent=lent, wished=wished), LendingTerms(), now_s=0.0)

    assert 0 <= loan.workers <= 10 - min(10, loan.needed)


def lognormal(step: int, noise: float, *, bias: float = 1.0) -> Forecast:
    """A daily wave with noise; `bias` is what the forecaster gets wrong."""
    steps = range(step, step + 40)
    centre = [bias * (50.0 + 30.0 * math.sin(2 * math.pi * at / 240)) for at in steps]
    spread = [math.exp(noise * NormalDist().inv_cdf(level)) for level in LEVELS]
    return Forecast(step * STEP_S, STEP_S, np.outer(spread, centre), "made-up")


def missed(*, bias: float, noise: float, terms: LendingTerms, steps: int = 1500) -> float:
    """Share of steps in which the owner needs more than is left when all that is asked back has come."""
    draw = np.random.default_rng(5)
    lead_s, back = 120.0, round((terms.return_s + 120.0) / STEP_S)
    lent, out, missing = 0, [], 0
    for step in range(steps):
        offer = Owner(JOB, 20, linear(10.0, 30), lognormal(step, noise, bias=bias), lead_s, 0, lent)
        lent = loan_of(offer, terms, now_s=step * STEP_S).workers
        out.append(lent)
        rate = (50.0 + 30.0 * math.sin(2 * math.pi * step / 240)) * math.exp(noise * draw.standard_normal())
        missing += math.ceil(rate / 10.0) > 20 - max(out[-back - 1 :])
    return missing / steps


def test_loans_are_back_in_time_at_the_stated_quantile() -> None:
    for level in (0.9, 0.95, 0.975):
        assert missed(bias=1.0, noise=0.25, terms=LendingTerms(level=level)) <= 1 - level


def test_a_forecaster_that_errs_within_its_quantiles_misses_no_more_than_they_say() -> None:
    assert missed(bias=1.1, noise=0.25, terms=LendingTerms()) <= 0.05
    assert missed(bias=0.95, noise=0.25, terms=LendingTerms(level=0.95)) <= 0.10


def test_without_notice_loans_come_back_too_late() -> None:
    hasty = LendingTerms(level=0.5, return_s=0.0, useful_s=0.0)

    assert missed(bias=1.0, noise=0.25, terms=hasty) > 0.2


def test_whoever_shares_a_gpu_yields_when_the_guaranteed_step_takes_five_percent_longer() -> None:
    pair = Neighbourhood().alone(0.1).alone(0.1)

    assert not pair.yields
    assert not pair.shared(0.1049).yields
    assert pair.shared(0.1051).yields
    assert not pair.shared(0.2).alone(0.1).yields


def test_whoever_shares_with_a_worker_never_measured_alone_yields() -> None:
    assert Neighbourhood().shared(0.1).yields
