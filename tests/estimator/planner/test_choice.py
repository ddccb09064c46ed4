"""What is weighed beside lateness: giving back what will be missed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.planner.choice import Candidate, Weighing
from estimator.planner.futures import Futures
from estimator.planner.timing import Timing
from estimator.situation import Limits, Slo
from tests.estimator.planner.histories import planning

SURE = np.ones(1)
TIMING = Timing(lead_time_s=180.0, slo_s=60.0, bin_s=60.0)


def chosen(*, price: float, spared_minutes: int) -> int:
    """Of a pool of 6, where 5 carry the traffic until well after the horizon, and 6 are needed then."""
    now = np.full(TIMING.steps, 495.0)
    further = np.where(np.arange(TIMING.further) < spared_minutes, 495.0, 550.0)
    seen = planning(np.full(1440, 495.0), requested=6, slo=Slo(60.0, 0.01))
    return Weighing(seen, Futures(now[None, :], SURE, now, further), TIMING, price).choose().workers


@pytest.mark.parametrize(("price", "kept"), [(2.0, 5), (100.0, 6)])
def test_a_worker_missed_soon_is_given_back_only_where_lateness_is_cheap(price: float, kept: int) -> None:
    assert chosen(price=price, spared_minutes=2) == kept


def test_a_worker_spared_for_long_is_given_back_at_any_price() -> None:
    assert chosen(price=100.0, spared_minutes=TIMING.further) == 5


@given(
    rate=st.floats(100.0, 3000.0),
    growth=st.floats(0.3, 3.0),
    requested=st.integers(1, 40),
    lag=st.floats(0.0, 5e5),
)
def test_no_larger_size_is_cheaper_than_the_one_chosen(
    rate: float, growth: float, requested: int, lag: float
) -> None:
    """However far the pool is from what it needs: costs may have two valleys."""
    rates = np.linspace(rate, rate * growth, TIMING.steps)
    futures = Futures(rates[None, :], SURE, rates, rates[-1:])

    def best(low: int, high: int) -> Candidate:
        seen = planning(
            np.full(1440, rate), requested=requested, lag=lag, lag_s=lag / rate, limits=Limits(low, high)
        )
        return Weighing(seen, futures, TIMING, price=30.0, explains=False).choose().best

    assert best(1, 40).cost <= min(best(size, size).cost for size in range(requested, 41)) * 1.0002
