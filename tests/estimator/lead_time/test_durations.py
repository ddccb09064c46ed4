"""How long something takes, never optimistic while few have been seen."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.lead_time import Durations

durations = st.lists(st.floats(0, 1e5), max_size=70)


def test_before_anything_is_seen_it_is_what_was_stated() -> None:
    assert Durations(120.0).careful_s == 120.0


def test_a_few_quick_ones_are_luck() -> None:
    lucky = Durations(120.0)
    for _ in range(5):
        lucky = lucky.seen(20.0)

    assert lucky.careful_s >= 120.0


def test_what_was_stated_stands_while_all_that_was_seen_bears_it_out() -> None:
    steady = Durations(180.0)
    for took_s in (185.0, 175.0, 190.0, 185.0):
        steady = steady.seen(took_s)
        assert 180.0 <= steady.careful_s <= 190.0


def test_one_that_belies_what_was_stated_makes_the_next_ones_uncertain() -> None:
    assert Durations(180.0).seen(185.0).seen(240.0).careful_s > 300.0


def test_a_slow_one_counts_at_once() -> None:
    assert Durations(120.0).seen(400.0).careful_s >= 400.0


def test_many_quick_ones_are_believed() -> None:
    quick = Durations(120.0)
    for _ in range(20):
        quick = quick.seen(20.0)

    assert quick.careful_s == 20.0


def test_what_was_given_up_counts_as_longer_than_it_was_waited_for() -> None:
    assert Durations(60.0).given_up(300.0).careful_s >= 600.0


def test_what_happened_long_ago_is_forgotten() -> None:
    changed = Durations(60.0)
    for took_s in [500.0] * 64 + [30.0] * 64:
        changed = changed.seen(took_s)

    assert changed.careful_s == 30.0


def test_nine_of_ten_are_within_the_quantile_and_not_many_more() -> None:
    draw = random.Random(3)
    within, known = 0, Durations(90.0)
    for _ in range(400):
        took_s = draw.lognormvariate(4.0, 0.5)
        within += took_s <= known.careful_s
        known = known.seen(took_s)

    assert 0.87 <= within / 400 <= 0.96


@given(st.floats(0, 1e5), durations)
def test_it_is_a_number_of_at_least_nothing_and_no_less_than_the_longest_of_a_few(
    stated_s: float, seen: list[float]
) -> None:
    known = Durations(stated_s)
    for took_s in seen:
        known = known.seen(took_s)

    assert 0 <= known.careful_s < float("inf")
    if len(seen) < 9:
        assert known.careful_s >= max([stated_s, *seen])


@pytest.mark.parametrize("lie", [-1.0, float("nan"), float("inf")])
def test_what_cannot_be_a_duration_changes_nothing(lie: float) -> None:
    assert Durations(60.0).seen(lie) == Durations(60.0)


def test_a_stated_duration_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="a duration of nan s cannot be"):
        Durations(float("nan"))


def test_lead_times_of_minutes_or_hours_are_told_apart() -> None:
    scarce = Durations(120.0)
    for took_s in [100.0] * 12 + [200.0] * 4 + [14_000.0] * 4:
        scarce = scarce.seen(took_s)

    assert scarce.spread_s == (100.0, 100.0, 100.0, 200.0, 14_000.0)
    assert scarce.careful_s == 14_000.0


def test_lead_times_that_are_much_alike_or_few_have_no_spread_to_tell() -> None:
    alike, few = Durations(120.0), Durations(120.0).seen(100.0).seen(900.0)
    for took_s in range(100, 140):
        alike = alike.seen(float(took_s))

    assert alike.spread_s == few.spread_s == ()


def test_few_lead_times_of_seconds_and_hours_are_two_fates() -> None:
    few = Durations(120.0).seen(100.0).given_up(4_500.0)

    assert few.spread_s == (100.0, 100.0, 9_000.0, 9_000.0, 9_000.0)
