"""What is weighed beside lateness: giving back what will be missed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.capacity import LearnedCapacity
from estimator.planner.choice import Weighing
from estimator.planner.futures import Futures
from estimator.planner.timing import Timing
from estimator.situation import Limits, Slo
from estimator.throughput import ThroughputModel
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


@pytest.mark.parametrize("price", [2.0, 20.0])
def test_a_pool_far_too_small_grows_as_far_as_is_known_though_that_does_not_carry_the_traffic(
    price: float,
) -> None:
    """C(n) is counted on up to 20 workers, of 60 that are needed: how far more go shows in having them."""
    capacity = LearnedCapacity(100.0, 0.0, model=ThroughputModel.guessed(100.0, contention=0.0), reach=20)
    rates = np.full(TIMING.steps, 6000.0)
    seen = planning(np.full(1440, 6000.0), requested=10, lag=6000.0 * 600, lag_s=600.0, capacity=capacity)
    weighing = Weighing(seen, Futures(rates[None, :], SURE, rates, rates[-1:]), TIMING, price, explains=False)

    assert weighing.choose().workers == 20


def wanted_of_large(requested: int, *, rate: float, spared_minutes: int, price: float = 6.0) -> int:
    """What a pool of about a hundred is resized to."""
    now = np.full(TIMING.steps, rate)
    further = np.where(np.arange(TIMING.further) < spared_minutes, rate, 100.0 * requested)
    seen = planning(np.full(1440, rate), requested=requested)
    return Weighing(seen, Futures(now[None, :], SURE, now, further), TIMING, price).choose().workers


def test_a_large_pool_is_not_moved_by_what_moves_a_small_one_all_the_time() -> None:
    assert wanted_of_large(100, rate=9700.0, spared_minutes=2) == 100
    assert wanted_of_large(100, rate=7000.0, spared_minutes=2) == 70


def test_a_large_pool_gives_back_a_few_that_are_spared_for_long() -> None:
    assert wanted_of_large(100, rate=9700.0, spared_minutes=TIMING.further) == 97


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
    seen = planning(np.full(1440, rate), requested=requested, lag=lag, lag_s=lag / rate, limits=Limits(1, 40))
    weighing = Weighing(seen, futures, TIMING, price=30.0, explains=False)

    _, costs, _ = weighing._try(np.arange(requested, 41), weighing._curve())

    assert weighing.choose().best.cost <= costs.min() * 1.0002
