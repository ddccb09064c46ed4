"""Rates on several grids: exact where measured, NaN where not, bounded, unmoved by the clock's jumps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.history import TrafficHistory
from services.meter.history import RateGrid, RateHistory, Resolution, regridded

START_S = 1_700_000_000.0


def grid(step_s: float = 10.0, bins: int = 100) -> RateGrid:
    return RateGrid(Resolution(step_s, step_s * bins))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 40.0), st.integers(0, 10_000)), min_size=1, max_size=40),
    st.sampled_from([1.0, 2.5, 10.0, 60.0]),
)
def test_no_sample_is_lost_or_counted_twice_whatever_the_polls(
    polls: list[tuple[float, int]], step_s: float
) -> None:
    history = grid(step_s, bins=2000)
    at_s = START_S
    for seconds, count in polls:
        history.add(at_s, at_s + seconds, count)
        at_s += seconds
    edge_s = (np.floor(at_s / step_s) + 2) * step_s
    history.add(at_s, edge_s, 0)  # closes the last bin

    rates = history.history().rates
    first_covered_s = step_s - START_S % step_s
    widths = np.full(len(rates), step_s)
    known = ~np.isnan(rates)
    if known.any() and first_covered_s < step_s and history.history().start_s <= START_S:
        widths[0] = first_covered_s
    total = np.nansum(rates * widths)
    dropped = (
        polls[0][1] if first_covered_s < step_s / 2 else 0
    )  # the first bin may have been seen too little
    assert total == pytest.approx(sum(count for _, count in polls), rel=1e-5, abs=dropped + 1e-3)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-500, 500), st.floats(0.1, 30.0), st.integers(0, 1000)), max_size=60))
def test_rates_are_never_negative_or_infinite_even_when_the_clock_jumps(
    jumps: list[tuple[float, float, int]],
) -> None:
    history = grid()
    at_s = START_S
    for jump_s, seconds, count in jumps:
        at_s += jump_s
        history.add(at_s, at_s + seconds, count)
        at_s += seconds

    rates = history.history().rates  # TrafficHistory itself refuses what is negative or infinite
    assert np.nanmax(rates, initial=0.0) <= max((c / s for _, s, c in jumps), default=0.0) * (1 + 1e-6)


def test_a_time_when_nobody_looked_is_a_gap_and_not_silence() -> None:
    history = grid()
    history.add(0.0, 20.0, 40)
    history.skip_to(50.0)
    history.add(50.0, 70.0, 60)

    assert np.array_equal(history.history().rates, [2, 2, np.nan, np.nan, np.nan, 3, 3], equal_nan=True)


@pytest.mark.parametrize(("covered_s", "told"), [(4.9, False), (5.1, True)])
def test_a_bin_seen_for_less_than_half_its_width_is_a_gap(covered_s: float, told: bool) -> None:
    history = grid()
    history.add(10.0 - covered_s, 10.0, 100)
    history.add(10.0, 20.0, 10)

    assert (history.history().start_s == 0.0) is told


def test_a_clock_set_back_writes_its_bins_anew() -> None:
    history = grid()
    history.add(0.0, 100.0, 100)
    history.add(40.0, 60.0, 40)

    assert np.array_equal(history.history().rates, [1, 1, 1, 1, 2, 2])


def test_a_clock_that_jitters_across_an_edge_costs_nothing() -> None:
    history = grid()
    history.add(0.0, 10.001, 10.001)
    history.add(9.9, 9.95, 0.05)
    history.add(9.999, 20.0, 10.001)

    assert history.history().rates == pytest.approx([1.0, 1.0], rel=1e-4)


def test_old_bins_make_room() -> None:
    history = grid(bins=3)
    history.add(0.0, 100.0, 100)

    assert (history.history().start_s, len(history.history().rates)) == (70.0, 3)


def test_a_jump_of_years_is_quick_and_leaves_only_gaps() -> None:
    history = grid()
    history.add(0.0, 100.0, 100)
    history.skip_to(3e9)
    history.add(3e9, 3e9 + 20.0, 40)

    assert history.history().rates.tolist() == [2.0, 2.0]


def test_a_seeded_past_lies_before_what_is_measured_and_is_not_replaced_by_it() -> None:
    history = RateHistory(step_s=10.0, resolutions=())
    history.seed(TrafficHistory(start_s=0.0, step_s=10.0, rates=np.array([5.0, 6.0, 7.0])))
    history.add(30.0, 50.0, 20)

    assert history.history().rates.tolist() == [5.0, 6.0, 7.0, 1.0, 1.0]


def test_what_was_measured_is_not_replaced_by_a_past_told_later() -> None:
    history = RateHistory(step_s=10.0, resolutions=())
    history.add(20.0, 30.0, 10)
    history.skip_to(50.0)
    history.add(50.0, 60.0, 30)
    history.seed(TrafficHistory(start_s=0.0, step_s=10.0, rates=np.full(5, 9.0)))

    assert history.history().rates.tolist() == [9, 9, 1, 9, 9, 3]


def test_a_seed_is_made_finer_only_for_the_forecasts() -> None:
    history = RateHistory(step_s=5.0, resolutions=(Resolution(1.0, 100.0), Resolution(60.0, 6000.0)))
    history.seed(TrafficHistory(start_s=0.0, step_s=10.0, rates=np.arange(12.0)))

    assert len(history.history(1.0).rates) == 0
    assert history.history(60.0).rates.tolist() == [2.5, 8.5]
    assert history.history(5.0).rates.tolist() == np.repeat(np.arange(12.0), 2).tolist()


def test_a_seed_off_the_grid_does_not_lose_the_bin_of_the_moment() -> None:
    history = RateHistory(step_s=1.0, resolutions=())
    history.seed(TrafficHistory(start_s=990.7, step_s=1.0, rates=np.full(10, 5.0)))  # until 1000.7
    history.add(1000.7, 1003.2, 12.5)

    told = history.history()
    assert (told.start_s, told.end_s) == (991.0, 1003.0)
    assert told.rates.tolist() == [5.0] * 12


@settings(deadline=None)
@given(
    st.floats(0, 1e4),
    st.lists(st.one_of(st.just(np.nan), st.floats(0, 1e6)), max_size=60),
    st.sampled_from([60.0, 90.0, 600.0]),
)
def test_regridding_stays_within_what_was_measured(start_s: float, rates: list[float], step_s: float) -> None:
    past = TrafficHistory(start_s=start_s, step_s=60.0, rates=np.array(rates, dtype=np.float64))

    _, coarser = regridded(past, step_s)

    known = past.rates[~np.isnan(past.rates)]
    if len(known) == 0:
        assert np.isnan(coarser).all()
    else:
        assert np.nanmin(coarser) >= known.min() * (1 - 1e-9)
        assert np.nanmax(coarser) <= known.max() * (1 + 1e-9)


def test_all_grids_tell_the_same_past() -> None:
    history = RateHistory(step_s=60.0)
    random = np.random.default_rng(3)
    at_s, total = START_S - START_S % 600, 0
    for count in random.integers(0, 2000, size=600):
        history.add(at_s, at_s + 1.0, int(count))
        at_s, total = at_s + 1.0, total + int(count)

    for step_s in (1.0, 10.0, 60.0):
        told = history.history(step_s)
        assert (told.start_s, told.end_s) == (START_S - START_S % 600, at_s)
        assert told.rates.sum() * step_s == pytest.approx(total, rel=1e-5)
