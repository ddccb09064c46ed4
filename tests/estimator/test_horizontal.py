"""HPA's stabilisation and rate limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from estimator.rules.horizontal import Past, behaved, unbehaved
from estimator.situation import Limits

LIMITS = Limits(workers_min=1, workers_max=100)


def test_growth_is_at_most_four_or_double_in_fifteen_seconds() -> None:
    assert behaved(50, 2, Past(), LIMITS, now_s=0.0)[0] == 6
    assert behaved(50, 10, Past(), LIMITS, now_s=0.0)[0] == 20


def test_workers_added_in_the_same_period_count_against_the_limit() -> None:
    first, past = behaved(50, 10, Past(), LIMITS, now_s=0.0)

    again, _ = behaved(50, first, past, LIMITS, now_s=5.0)
    later, _ = behaved(50, first, past, LIMITS, now_s=15.0)

    assert (first, again, later) == (20, 20, 40)


def test_shrinking_waits_for_the_highest_recommendation_of_five_minutes() -> None:
    _, past = behaved(10, 10, Past(), LIMITS, now_s=0.0)

    held, past = behaved(4, 10, past, LIMITS, now_s=290.0)
    shrunk, _ = behaved(4, 10, past, LIMITS, now_s=301.0)

    assert (held, shrunk) == (10, 4)


def test_raw_recommendations_are_remembered_not_what_was_set() -> None:
    workers, past = behaved(50, 10, Past(), LIMITS, now_s=0.0)

    assert workers == 20
    assert past.recommended == ((0.0, 50),)


def test_without_behaviours_growth_is_at_most_double_or_four() -> None:
    assert unbehaved(50, 1, Past(), LIMITS, now_s=0.0)[0] == 4
    assert unbehaved(50, 10, Past(), LIMITS, now_s=0.0)[0] == 20


@given(
    desired=st.lists(st.integers(0, 200), min_size=1, max_size=40),
    first=st.integers(1, 100),
)
def test_sizes_stay_within_the_limits_whatever_is_desired(desired: list[int], first: int) -> None:
    current, past = first, Past()
    for tick, wanted in enumerate(desired):
        current, past = behaved(wanted, current, past, LIMITS, now_s=15.0 * tick)
        assert LIMITS.workers_min <= current <= LIMITS.workers_max
