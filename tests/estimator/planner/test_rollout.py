"""The queue that candidates are rolled through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.planner.rollout import BEHIND, DRAIN, LATE, LEFT, OVERDUE, roll

CURVE = 100.0 * np.arange(41)


def rolled(rates: list[float], candidates: list[int], **known: Any) -> Any:
    """Outcomes over one future, second by second unless told otherwise."""
    usual: dict[str, Any] = {
        "curve": CURVE, "arriving_s": np.empty(0), "ready": 4, "requested": 4, "standbys": 0, "lag": 0.0,
        "lag_s": 1e-9, "step_s": 1.0, "slo_s": 5.0, "lead_s": 10.0, "pause_s": 0.0,
    }  # fmt: skip
    usual.update(known)
    return roll(np.array(candidates), np.array([rates]), np.ones(1), *usual.values())


def late_by_counting(rates: list[float], capacity: list[float], slo_s: int) -> float:
    """Trains whole samples in order, second by second, and looks at the age of each."""
    waiting: list[list[float]] = []
    late = 0.0
    for second, (rate, able) in enumerate(zip(rates, capacity, strict=True)):
        waiting.append([second, rate])
        left = able
        while waiting and left > 1e-9:
            taken = min(left, waiting[0][1])
            late += taken * (second + 1 - waiting[0][0] > slo_s)
            waiting[0][1] -= taken
            left -= taken
            if waiting[0][1] <= 1e-9:
                waiting.pop(0)
    return late


def test_a_pool_that_carries_the_traffic_is_never_late() -> None:
    found = rolled([400.0] * 30, [4])[0]

    assert found.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_it_agrees_with_counting_sample_by_sample() -> None:
    rates = [900.0] * 8 + [100.0] * 32
    capacity = [400.0] * 10 + [600.0] * 30

    assert rolled(rates, [6])[0][LATE] == pytest.approx(late_by_counting(rates, capacity, 5), rel=0.02)


def test_new_workers_help_only_after_the_lead_time() -> None:
    early = rolled([500.0] * 10, [4, 40])

    assert early[0][LEFT] == early[1][LEFT] == pytest.approx(1000.0)


def test_the_first_new_workers_help_at_once_where_as_many_stand_by() -> None:
    none, one, two = rolled([600.0] * 10, [4, 5, 7], standbys=2)

    assert none[LEFT] == pytest.approx(2000.0)
    assert one[LEFT] == pytest.approx(1000.0)
    assert two[LEFT] == 0.0


def test_standbys_are_not_missed_by_a_pool_that_shrinks() -> None:
    assert rolled([500.0] * 10, [3], standbys=2).tolist() == rolled([500.0] * 10, [3]).tolist()


def test_starts_under_way_come_when_they_are_due() -> None:
    coming = rolled([500.0] * 10, [5], requested=5, arriving_s=np.array([4.0]))[0]

    assert coming[LEFT] == pytest.approx(400.0)


def test_a_smaller_pool_calls_off_starts_before_it_lets_workers_go() -> None:
    kept = rolled([400.0] * 10, [4], requested=6, arriving_s=np.array([3.0, 5.0]))[0]
    fewer = rolled([400.0] * 10, [3], requested=6, arriving_s=np.array([3.0, 5.0]))[0]

    assert kept[LEFT] == 0.0
    assert fewer[LEFT] == pytest.approx(1000.0)


def test_a_resize_pauses_all_workers_where_there_is_a_pause() -> None:
    paused = rolled([300.0] * 20, [3], pause_s=3.0)[0]

    assert paused[LEFT] == pytest.approx(900.0)


def test_what_waits_already_is_late_first() -> None:
    behind = rolled([0.0] * 10, [4], lag=4000.0, lag_s=20.0)[0]

    assert behind[LATE] >= 2800.0
    assert behind[OVERDUE] > 0.0


@settings(max_examples=60, deadline=None)
@given(
    rates=st.lists(st.floats(0, 3000), min_size=12, max_size=40),
    lag=st.floats(0, 1e4),
    lead_s=st.floats(0.5, 60.0),
    step_s=st.floats(0.5, 20.0),
)
def test_more_workers_are_never_later(rates: list[float], lag: float, lead_s: float, step_s: float) -> None:
    found = rolled(rates, [1, 3, 4, 5, 9, 30], lag=lag, lag_s=30.0, lead_s=lead_s, step_s=step_s)

    assert (np.diff(found[:, LATE]) <= 1e-6 * (1 + found[:-1, LATE])).all()
    assert (np.diff(found[:, LEFT]) <= 1e-6 * (1 + found[:-1, LEFT])).all()


def test_all_that_arrive_until_the_backlog_is_drained_are_late_behind_it() -> None:
    same, twice = rolled([400.0] * 12, [4, 8], lag=10_000.0, lag_s=25.0)

    # A pool as large as the traffic drains nothing; a later plan could make it larger by a quarter.
    assert same[BEHIND] == pytest.approx((same[LEFT] - 5 * 400) / DRAIN)
    # Twice as large it drains as fast as samples arrive.
    assert twice[BEHIND] == pytest.approx(twice[LEFT] - 5 * 400)
    assert twice[BEHIND] < same[BEHIND] / 3


def test_of_pools_that_cannot_carry_the_traffic_the_larger_one_has_less_late_behind_it() -> None:
    found = rolled([1600.0] * 12, [4, 6, 8, 12], lag=50_000.0, lag_s=30.0)

    assert (np.diff(found[:, BEHIND]) < 0).all()
    # Who is short by a half is a lead time further from carrying it than who is not.
    assert found[0, BEHIND] - found[2, BEHIND] == pytest.approx(1600.0 * 10.0, rel=0.2)


def test_compiled_and_plain_agree() -> None:
    rates = np.abs(np.random.default_rng(3).normal(500, 200, (5, 30)))
    arguments: tuple[Any, ...] = (
        np.array([3, 6]), rates, np.full(5, 0.2), CURVE, np.array([7.0]),
        4, 5, 1, 900.0, 4.0, 2.0, 5.0, 10.0, 1.0,
    )  # fmt: skip

    assert roll(*arguments) == pytest.approx(roll.py_func(*arguments))  # type: ignore[attr-defined]
