"""What a rate over the first seconds of a bin is believed to say of the whole."""

from __future__ import annotations

import math

import pytest

from estimator.planner.glimpse import FAR, Glimpses
from estimator.planner.memory import PlannerMemory, noted
from estimator.rules.penstock import penstock
from services.simulator.course import course_of
from services.simulator.figures import figures_of
from services.simulator.run import simulate
from tests.estimator.planner.histories import NOW_S, daily, history, planning
from tests.simulator.making import a_plant, a_trace

USUAL = 0.05
"""How far the rate of a bin lies from what was expected, in logarithms."""


def after(*glimpses: float, bins: int = 100) -> Glimpses:
    """Bins of a rate of 1, of which a fifth had seen these in turn."""
    known = Glimpses()
    for place in range(bins):
        known = known.seen(glimpses[place % len(glimpses)], 0.2).closed(1.0)
    return known


def believed(known: Glimpses, seen: float) -> float:
    return known.level(seen, 0.2, expected=0.0, usual=USUAL)[0]


def test_where_parts_told_of_the_whole_they_are_believed() -> None:
    assert believed(after(1.0), 0.3) == pytest.approx(0.3, rel=0.03)


def test_where_traffic_gusts_what_was_expected_weighs_more() -> None:
    assert abs(believed(after(0.7, 1.3), 0.3)) < 0.03


def test_what_lies_beyond_any_gust_is_a_jump() -> None:
    gust = 0.3

    assert believed(after(1 - gust, 1 + gust), math.log(4.0)) > math.log(4.0) - (FAR + 0.1) * gust


def test_nothing_known_is_half_believed() -> None:
    level, variance = Glimpses().level(0.04, 0.2, expected=0.0, usual=USUAL)

    assert level == pytest.approx(0.02)
    assert variance == pytest.approx(USUAL**2 / 2)


def test_more_of_the_bin_says_more() -> None:
    known = Glimpses()
    for place in range(100):
        early, late = (1 + side * (1 if place % 2 else -1) for side in (0.3, 0.02))
        known = known.seen(early, 0.2).seen(late, 0.8).closed(1.0)

    early, late = (known.level(0.2, share, expected=0.0, usual=USUAL)[0] for share in (0.2, 0.8))

    assert early < 0.02
    assert late > 0.15


@pytest.mark.parametrize("rate", [None, math.nan])
def test_a_bin_that_was_not_measured_teaches_nothing(rate: float | None) -> None:
    known = after(1.0)

    assert known.seen(5.0, 0.2).closed(rate) == known


def test_silence_is_no_gust() -> None:
    known = Glimpses().seen(0.0, 0.2).closed(0.0)

    assert math.isfinite(known.level(-3.0, 0.2, expected=0.0, usual=USUAL)[0])


def _noted(memory: PlannerMemory, *, end_s: float, now_s: float, rate_per_s: float) -> PlannerMemory:
    seen = planning(daily(0.1), now_s=now_s, rate_per_s=rate_per_s, history=history(daily(0.1), end_s=end_s))
    return noted(seen, memory, season_s=86_400.0)


def test_each_bin_is_held_against_what_was_seen_of_it() -> None:
    came = float(daily(0.1)[-1])
    memory = _noted(PlannerMemory(), end_s=NOW_S, now_s=NOW_S + 12.0, rate_per_s=1.5 * came)
    memory = _noted(memory, end_s=NOW_S + 60.0, now_s=NOW_S + 70.0, rate_per_s=came)

    assert memory.glimpses.errors[1] == pytest.approx((0.5 * came) ** 2)
    assert memory.glimpses.squares[1] == pytest.approx(came**2)


def test_a_bin_that_nobody_saw_close_is_not_mistaken_for_another() -> None:
    memory = _noted(PlannerMemory(), end_s=NOW_S, now_s=NOW_S + 12.0, rate_per_s=5000.0)
    memory = _noted(memory, end_s=NOW_S + 180.0, now_s=NOW_S + 190.0, rate_per_s=1000.0)

    assert memory.glimpses.counts == Glimpses().counts


def test_gusts_do_not_move_the_pool() -> None:
    """Ten seconds of batches are no traffic: the same minutes are trained with about as many resizes."""

    def played(gusts: float) -> tuple[int, float]:
        plant = a_plant(startup_s=180.0, gusts=gusts, warmup_days=1.0)
        course = course_of(a_trace(daily(1.4, noise=0.02)), plant, seed=3, settle_s=3600.0)
        found = figures_of(simulate(penstock(explains=False), plant, course, seed=3), plant, seed=3)
        return found.resizes, found.gpu_hours

    (resizes, gpu_hours), (gusty_resizes, gusty_gpu_hours) = played(0.0), played(0.4)

    assert gusty_resizes <= 1.5 * resizes + 5
    assert gusty_gpu_hours <= 1.1 * gpu_hours
