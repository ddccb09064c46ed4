"""Gaps, outages and the bursts after them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from forecasting.cleaning import filled, without_outages
from forecasting.history import Rates

SEASON = 200


def cleaned(rates: Rates) -> Rates:
    return without_outages(rates, season=SEASON, window=10, outage_max=20)


def steady(bins: int = 300) -> Rates:
    return 10 + np.random.default_rng(0).uniform(-1, 1, size=bins)


def test_a_short_silence_is_a_gap_not_traffic() -> None:
    rates = steady()
    rates[250:255] = 0.0

    assert np.isnan(cleaned(rates)[250:255]).all()
    assert not np.isnan(cleaned(rates)[:250]).any()


def test_the_burst_after_an_outage_is_not_traffic_either() -> None:
    rates = steady()
    rates[250:255] = 0.0
    rates[255:258] = 40.0

    assert np.isnan(cleaned(rates)[250:258]).all()
    assert cleaned(rates)[258] == rates[258]


def test_a_rise_without_an_outage_is_traffic() -> None:
    rates = steady()
    rates[255:258] = 40.0

    np.testing.assert_array_equal(cleaned(rates), rates)


def test_a_silence_that_lasts_is_a_new_level() -> None:
    rates = steady()
    rates[250:] = 0.0

    assert cleaned(rates)[275:].tolist() == [0.0] * 25


def test_a_silence_that_comes_every_season_is_the_rhythm() -> None:
    rates = steady(500)
    rates[250:255] = 0.0
    rates[450:455] = 0.0

    assert cleaned(rates)[450:455].tolist() == [0.0] * 5


def test_small_counts_are_silent_by_chance() -> None:
    rates = np.random.default_rng(1).poisson(0.7, size=300).astype(float)

    np.testing.assert_array_equal(cleaned(rates), rates)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), cut=st.integers(230, 299))
def test_what_came_later_does_not_change_what_is_cleaned(seed: int, cut: int) -> None:
    draw = np.random.default_rng(seed)
    rates = steady()
    for at in draw.integers(220, 290, size=2):
        length = int(draw.integers(1, 25))
        rates[at : at + length] = 0.0
        rates[at + length : at + length + 4] = draw.choice([10.0, 45.0])

    np.testing.assert_array_equal(cleaned(rates[:cut]), cleaned(rates)[:cut])


def test_a_long_gap_repeats_the_season_before() -> None:
    rates = np.tile(np.arange(1.0, 11.0), 3)
    rates[22:28] = np.nan

    values, first = filled(rates, season=10, hold=2)

    assert first == 0
    assert values[22:28].tolist() == [2.0, 2.0, 5.0, 6.0, 7.0, 8.0]
