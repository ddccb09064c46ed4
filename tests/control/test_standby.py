"""Warm standbys: started, loaded and without leases; waking one is an assignment, not a resize."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.situation import Situation, Sizing
from forecasting.forecast import Forecast
from services.control.decide import decide
from services.control.safety import SafetyLimits, SafetyMemory
from services.control.standby import standing_by
from services.control.types import (
    ControlState,
    Decision,
    Mode,
    Observation,
    Override,
    Policy,
    PoolState,
    Reason,
    Shuffle,
    Worker,
    WorkerPhase,
)
from shuffler.assignment import Assignment
from tests.control.worlds import a_policy, a_pool, an_observation

QUICK = {"settle_s": 0.0, "utilisation": 1.0}


def keeping(standbys: int | None, *, workers_max: int = 10) -> Policy:
    """Sized by what is seen, at once."""
    return replace(a_policy(options=QUICK, workers_max=workers_max), standbys=standbys)


def tick(
    before: Decision | ControlState, policy: Policy, pool: PoolState, *, rate: float, at_s: float = 1000.0
) -> Decision:
    """As the loop does: the assignment in force says who of the pool stands by."""
    state = before.state if isinstance(before, Decision) else before
    seen = an_observation(at_s=at_s, rate=rate, pool=standing_by(pool, state.assignment))
    return decide(seen, state, policy)


def active_of(decision: Decision) -> tuple[str, ...] | None:
    return decision.state.assignment.active


def test_standbys_are_asked_for_beside_the_workers_that_train() -> None:
    decision = tick(ControlState(), keeping(2), a_pool(1), rate=250)

    assert (decision.planned, decision.standbys) == (5, 2)
    assert decision.resize is not None
    assert decision.resize.workers == 5
    assert decision.numbers["capacity_planned_per_s"] == pytest.approx(300.0, rel=0.2)


def test_who_stands_by_owns_no_partition_and_is_not_ready() -> None:
    first = tick(ControlState(), keeping(2), a_pool(1), rate=250)
    there = tick(first, keeping(2), a_pool(5), rate=250)
    after = tick(there, keeping(2), a_pool(5), rate=250)

    assert active_of(there) == ("w-0", "w-1", "w-2")
    assert there.state.assignment.workers() == {"w-0", "w-1", "w-2"}
    assert (after.ready, after.requested, after.resize) == (3, 5, None)


def test_waking_a_standby_is_an_assignment_and_the_bench_is_filled_again() -> None:
    there = tick(tick(ControlState(), keeping(2), a_pool(1), rate=250), keeping(2), a_pool(5), rate=250)

    jumped = tick(there, keeping(2), a_pool(5), rate=450)

    assert active_of(jumped) == ("w-0", "w-1", "w-2", "w-3", "w-4"), "in this very decision"
    assert jumped.state.assignment.workers() <= {"w-0", "w-1", "w-2", "w-3", "w-4"}
    assert (jumped.planned, jumped.standbys) == (7, 2)


def test_the_rule_is_told_who_could_train_at_once() -> None:
    """Of those that stand by, those that are loaded; they are not among the requested ones."""
    told: list[Situation] = []
    policy = keeping(2)
    rule = policy.rule

    def listening(seen: Situation, memory: Any) -> tuple[Sizing, Any]:
        told.append(seen)
        return rule.size(seen, memory)

    policy = replace(policy, rule=replace(rule, size=listening))
    there = tick(tick(ControlState(), policy, a_pool(1), rate=250), policy, a_pool(5), rate=250)
    tick(there, policy, a_pool(5), rate=250)
    tick(there, policy, a_pool(5, ready=4), rate=250)

    assert [(seen.requested, seen.standbys) for seen in told] == [(1, 0), (3, 0), (3, 2), (3, 1)]


def test_a_standby_is_woken_even_where_no_resize_is_allowed() -> None:
    policy = replace(keeping(2), safety=SafetyLimits(resizes_per_hour=1))
    spent = SafetyMemory().resized(999.0, before=1, workers=5, ready=1)
    there = tick(ControlState(planned=5, standbys=2), keeping(2), a_pool(5), rate=250)

    held = tick(replace(there.state, safety=spent), policy, a_pool(5), rate=450)

    assert (held.planned, held.standbys, held.reason) == (5, 0, Reason.RESIZE_RATE)
    assert active_of(held) == ("w-0", "w-1", "w-2", "w-3", "w-4")


def test_workers_on_their_way_are_told_beforehand_what_they_are_for() -> None:
    first = tick(ControlState(), keeping(2), a_pool(1), rate=250)

    started = tick(first, keeping(2), a_pool(5, ready=1), rate=250)

    assert active_of(started) == ("w-0", "w-1", "w-2")


def test_everyone_trains_while_there_are_too_few() -> None:
    decision = tick(ControlState(planned=5, standbys=2), keeping(2), a_pool(5, ready=2), rate=900)
    alone = tick(decision, keeping(2), PoolState(11, a_pool(2).workers), rate=900)

    assert active_of(alone) is None


def test_one_that_trains_and_dies_is_replaced_by_one_that_stood_by() -> None:
    there = tick(tick(ControlState(), keeping(1), a_pool(1), rate=250), keeping(1), a_pool(4), rate=250)
    assert active_of(there) == ("w-0", "w-1", "w-2")
    left = tuple(worker for worker in a_pool(4).workers if worker.id != "w-1")
    starting = Worker("w-9", WorkerPhase.STARTING, 999.0)

    after = tick(there, keeping(1), PoolState(4, (*left, starting), failures=1), rate=250)

    assert active_of(after) == ("w-0", "w-2", "w-3")


def test_a_shrinking_pool_gives_up_standbys_before_workers_that_train() -> None:
    there = tick(tick(ControlState(), keeping(2), a_pool(1), rate=250), keeping(2), a_pool(5), rate=250)

    without = tick(there, keeping(0), a_pool(5), rate=250)

    assert without.resize is not None
    assert (without.planned, set(without.resize.remove)) == (3, {"w-3", "w-4"})
    assert active_of(without) is None


def test_standbys_yield_to_the_maximum() -> None:
    decision = tick(ControlState(), keeping(3, workers_max=5), a_pool(1), rate=450)

    assert (decision.planned, decision.standbys) == (5, 0)


def test_an_override_sets_how_many_train() -> None:
    policy = replace(keeping(2), override=Override(4, until_s=9e9))

    decision = tick(ControlState(), policy, a_pool(1), rate=250)

    assert (decision.planned, decision.standbys) == (6, 2)


def test_a_paused_pool_keeps_its_standbys() -> None:
    there = tick(tick(ControlState(), keeping(2), a_pool(1), rate=250), keeping(2), a_pool(5), rate=250)

    paused = tick(there, replace(keeping(2), paused=True), a_pool(5), rate=900)

    assert (paused.planned, paused.standbys, paused.resize) == (5, 2, None)


@pytest.mark.parametrize("shuffle", [Shuffle.OFF, Shuffle.GROUP])
def test_without_leases_nobody_stands_by(shuffle: Shuffle) -> None:
    policy = replace(keeping(2), shuffle=shuffle)

    assert tick(ControlState(), policy, a_pool(1), rate=250).standbys == 0


def test_nobody_is_told_to_stand_by_in_shadow_mode() -> None:
    decision = tick(ControlState(), replace(keeping(2), mode=Mode.RECOMMEND), a_pool(5), rate=250)

    assert (decision.standbys, active_of(decision)) == (0, None)


def test_where_the_platform_gives_too_few_those_that_are_there_train() -> None:
    """Five were asked for, two of them to stand by; it stayed at three."""
    asked = tick(ControlState(), keeping(2), a_pool(1), rate=250)

    again = tick(asked, keeping(2), a_pool(3), rate=250)

    assert again.planned == 5
    assert active_of(again) == ("w-0", "w-1", "w-2")
    assert again.reason is not Reason.TRAFFIC_RISE, "three train what comes; the rest is for the bench"


def test_nobody_stands_by_in_a_pool_that_cannot() -> None:
    seen = replace(an_observation(rate=250), can_stand_by=False)

    assert decide(seen, ControlState(), keeping(2)).standbys == 0


def jumpy() -> Observation:
    paths = np.repeat(np.array([[200.0], [250.0], [500.0], [500.0], [500.0]]), 30, axis=1)
    forecast = Forecast(issued_at_s=1000.0, step_s=60.0, paths=paths, model="jumpy")
    return replace(an_observation(rate=250), forecast=forecast)


def test_as_many_as_pay_off_are_chosen_and_explained() -> None:
    decision = decide(jumpy(), ControlState(), replace(keeping(None), rule=a_policy(rule="reactive").rule))

    assert decision.standbys == decision.planned - 3
    assert decision.standbys >= 2
    assert decision.numbers["standby_peak_per_s"] == 500.0
    assert decision.numbers["standby_ratio"] == pytest.approx(0.99)


def test_a_forecast_that_is_away_for_a_moment_does_not_empty_the_bench() -> None:
    state = ControlState(planned=5, standbys=2)

    assert decide(an_observation(rate=250, pool=a_pool(5)), state, keeping(None)).standbys == 2


def test_nobody_is_kept_warm_for_what_a_bad_forecast_says() -> None:
    seen = jumpy()
    assert seen.forecast is not None
    bad = replace(seen, forecast=replace(seen.forecast, score=0.9))

    assert decide(bad, ControlState(), keeping(None)).standbys == 0


def test_the_platform_need_not_know_who_stands_by() -> None:
    pool = a_pool(3, ready=2)

    seen = standing_by(pool, Assignment(active=("w-0",)))

    assert [worker.phase for worker in seen.workers] == [
        WorkerPhase.READY,
        WorkerPhase.STANDBY,
        WorkerPhase.STARTING,
    ]
    assert (seen.requested, seen.ready) == (3, 1)
    assert standing_by(pool, Assignment()) is pool


@settings(deadline=None, max_examples=40)
@given(
    rates=st.lists(st.sampled_from([0.0, 90.0, 250.0, 450.0, 900.0]), min_size=2, max_size=12),
    standbys=st.integers(0, 4),
)
def test_whatever_comes_the_limits_hold_and_as_many_train_as_can(rates: list[float], standbys: int) -> None:
    policy = replace(keeping(standbys, workers_max=8), rule=a_policy(rule="reactive").rule)
    state, pool = ControlState(), a_pool(1)
    for number, rate in enumerate(rates):
        decision = tick(state, policy, pool, rate=rate, at_s=1000.0 + 5 * number)
        state, active = decision.state, active_of(decision)
        training = decision.planned - decision.standbys

        assert 1 <= training <= decision.planned <= 8
        assert decision.standbys <= standbys
        leaving = decision.resize.remove if decision.resize else ()
        there = [w.id for w in pool.workers if w.id not in leaving]
        if active is not None:
            assert len(active) == min(training, len(there))
            assert set(active) <= set(there)
        pool = a_pool(decision.planned)
