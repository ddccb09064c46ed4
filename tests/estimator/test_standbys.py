"""How many workers are kept warm: no fewer for dearer lateness or a wilder forecast, none for a calm one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from estimator.capacity import Capacity
from estimator.standbys import Standbys, critical_ratio, standbys_for
from forecasting.forecast import LEVELS, Forecast

PRICES = st.floats(0.01, 1e4)


def a_forecast(*rates: float) -> Forecast:
    """The same rates at every step, one for each level."""
    return Forecast(
        issued_at_s=0.0, step_s=60.0, paths=np.repeat(np.array([rates]).T, 30, axis=1), model="made-up"
    )


def chosen(
    forecast: Forecast, *, active: int = 4, kept: int = 0, price: float = 6.0, most: int = 20
) -> Standbys:
    capacity = Capacity(100.0, contention=0.0)
    return standbys_for(
        forecast,
        capacity,
        now_s=0.0,
        lead_time_s=120.0,
        active=active,
        kept=kept,
        workers_max=most,
        price=price,
    )


JUMPY = a_forecast(300.0, 400.0, 600.0, 800.0, 1200.0)


def test_the_ratio_is_the_newsvendors() -> None:
    assert critical_ratio(9.0) == 0.9
    assert chosen(JUMPY, price=9.0).ratio == 0.9


def test_traffic_that_cannot_jump_needs_nobody_warm() -> None:
    assert chosen(a_forecast(400.0, 400.0, 400.0, 400.0, 400.0)).workers == 0


def test_the_jump_that_the_price_says_is_covered() -> None:
    assert chosen(JUMPY, price=9.0).workers == 2  # 600/s at the 0.9 quantile, 4 train 400/s
    assert chosen(JUMPY, price=19.0).workers == 4
    assert chosen(JUMPY, price=99.0).workers == 8
    assert chosen(JUMPY, price=9.0).peak_per_s == 600.0


def test_what_already_trains_is_not_kept_warm_as_well() -> None:
    assert chosen(JUMPY, active=6, price=9.0).workers == 0


def test_standbys_fit_below_the_maximum() -> None:
    assert chosen(JUMPY, price=99.0, most=7).workers == 3
    assert chosen(JUMPY, active=7, price=99.0, most=7).workers == 0


def test_a_few_too_many_are_kept_rather_than_sent_away_and_fetched_again() -> None:
    assert chosen(JUMPY, price=9.0, kept=3).workers == 3, "at twice the price four would be right"
    assert chosen(JUMPY, price=9.0, kept=9).workers == 4


@given(
    spread=st.lists(st.floats(0.0, 5000.0), min_size=len(LEVELS), max_size=len(LEVELS)).map(sorted),
    price=PRICES,
    dearer=st.floats(1.0, 100.0),
    active=st.integers(0, 30),
    kept=st.integers(0, 30),
    most=st.integers(1, 40),
)
def test_dearer_lateness_never_means_fewer_and_the_maximum_holds(
    spread: list[float], price: float, dearer: float, active: int, kept: int, most: int
) -> None:
    forecast = a_forecast(*spread)

    cheap = chosen(forecast, active=active, kept=kept, price=price, most=most)
    dear = chosen(forecast, active=active, kept=kept, price=price * dearer, most=most)

    assert 0 <= cheap.workers <= dear.workers
    assert active + dear.workers <= max(active, most)
    settled = chosen(forecast, active=active, kept=cheap.workers, price=price, most=most)
    assert settled.workers == cheap.workers, "asked again, the answer is the same"
