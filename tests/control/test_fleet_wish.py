"""What a job tells the fleet: what it wishes, what a resize costs it, and when it is to be left alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from estimator.fleet import Configuration, Standing
from services.control.decide import decide
from services.control.fleet_wish import PATIENCE, Word, wish_of
from services.control.types import ControlState, Policy
from tests.control.worlds import a_policy, a_pool, an_observation

LEAD_S = 60.0
AT_S = 1000.0


def word(
    *, pause_s: float = 0.0, awaited: Mapping[str, float] | None = None, policy: Policy | None = None
) -> Word:
    """A job with two workers that wishes five."""
    seen = an_observation(at_s=AT_S, rate=450.0, pool=a_pool(2))
    decision = decide(seen, ControlState(planned=2), policy or a_policy())
    pool = replace(decision.state.pool, pause_s=pause_s, lead_time_s=LEAD_S, awaited=dict(awaited or {}))
    decision = replace(decision, state=replace(decision.state, pool=pool))
    return Word(decision, Standing("clicks"), seen, 60.0, "a100", ("a100",))


def test_it_wishes_what_is_planned_and_demands_what_those_would_train() -> None:
    wish = wish_of(word())

    assert wish.workers == {"a100": 5}
    assert wish.demand_per_s == pytest.approx(500.0)
    assert wish.curves["a100"][:3] == pytest.approx((0.0, 100.0, 200.0))
    assert wish.current == Configuration("a100", 2)


def test_a_resize_costs_what_it_pauses_of_a_quarter_of_an_hour_and_nothing_where_it_does_not() -> None:
    assert wish_of(word()).restart == 1.0
    assert wish_of(word(pause_s=90.0)).restart == pytest.approx(0.9)
    assert wish_of(word(pause_s=9_000.0)).restart == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("pause_s", "asked_at_s", "pinned"),
    [
        (30.0, AT_S - LEAD_S, True),
        (30.0, AT_S - PATIENCE * LEAD_S - 1.0, False),  # they do not come: it is not waited for any more
        (0.0, AT_S - LEAD_S, False),  # workers join without disturbing anybody
    ],
)
def test_in_the_middle_of_a_resize_that_pauses_it_is_left_alone(
    pause_s: float, asked_at_s: float, pinned: bool
) -> None:
    assert wish_of(word(pause_s=pause_s, awaited={"w-7": asked_at_s})).pinned is pinned


def test_a_paused_job_is_left_alone() -> None:
    assert wish_of(word(policy=replace(a_policy(), paused=True))).pinned
    assert not wish_of(word()).pinned
