"""One tick: the right size, the right reason, in the right order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.control.decide import decide
from services.control.types import (
    ControlState,
    Mode,
    Override,
    PoolState,
    Reason,
    Shuffle,
    Victims,
    Worker,
    WorkerPhase,
    WorkerReport,
)
from tests.control.worlds import a_policy, a_pool, an_observation

QUICK = {"settle_s": 0.0, "utilisation": 1.0}


def test_the_pool_is_sized_for_the_traffic_that_is_coming() -> None:
    decision = decide(an_observation(rate=100, coming=450), ControlState(planned=1), a_policy())

    assert decision.planned == 5
    assert decision.reason is Reason.FORECAST_RISE
    assert decision.resize is not None
    assert decision.resize.workers == 5


def test_no_forecast_can_push_below_what_is_seen() -> None:
    decision = decide(an_observation(rate=450, coming=100), ControlState(planned=1), a_policy())

    assert decision.planned == 5
    assert decision.reason is Reason.TRAFFIC_RISE


def test_without_a_forecast_the_traffic_seen_decides_and_the_decision_says_so() -> None:
    decision = decide(an_observation(rate=250), ControlState(planned=1), a_policy())

    assert decision.planned == 3
    assert Reason.NO_FORECAST in decision.notes


def test_a_backlog_is_caught_up() -> None:
    decision = decide(an_observation(rate=100, lag=12_000), ControlState(planned=1), a_policy())

    assert decision.planned == 3  # 100/s + 12,000 samples within 60 s
    assert decision.reason is Reason.CATCH_UP


def test_a_fallback_forecast_is_noted() -> None:
    seen = an_observation(coming=100)

    assert Reason.FALLBACK_FORECAST in decide(seen, ControlState(), a_policy(forecast_model="best")).notes
    assert Reason.FALLBACK_FORECAST not in decide(seen, ControlState(), a_policy(forecast_model="flat")).notes


def test_a_forecast_in_trouble_is_noted_and_its_score_is_among_the_numbers() -> None:
    seen = an_observation(coming=100)
    assert seen.forecast is not None
    mixed = replace(seen, forecast=replace(seen.forecast, score=0.04))
    stands_in = replace(seen, forecast=replace(seen.forecast, trouble="the served forecast is 500 s old"))

    fine = decide(mixed, ControlState(), a_policy())
    assert Reason.FALLBACK_FORECAST not in fine.notes
    assert fine.numbers["forecast_score"] == 0.04
    assert Reason.FALLBACK_FORECAST in decide(stands_in, ControlState(), a_policy()).notes


def test_stale_traffic_holds_the_plan() -> None:
    seen = an_observation(rate=0, measured_at_s=900, pool=a_pool(4))

    decision = decide(seen, ControlState(planned=4), a_policy())

    assert decision.planned == 4
    assert decision.reason is Reason.STALE_METER
    assert decision.resize is None


def test_shrinking_waits_until_it_has_been_right_for_a_while() -> None:
    policy, state = a_policy(), ControlState(planned=5)
    early = decide(an_observation(at_s=1000, rate=100, coming=100, pool=a_pool(5)), state, policy)
    late = decide(an_observation(at_s=1060, rate=100, coming=100, pool=a_pool(5)), early.state, policy)

    assert (early.planned, early.reason) == (5, Reason.SETTLING)
    assert (late.planned, late.reason) == (1, Reason.FORECAST_FALL)


def test_shrinking_takes_those_that_do_not_train_yet_then_the_youngest() -> None:
    seen = an_observation(rate=200, pool=a_pool(5, ready=4))

    decision = decide(seen, ControlState(planned=5), a_policy(options={"settle_s": 0, "utilisation": 1}))

    assert decision.resize is not None
    assert decision.resize.remove == ("w-4", "w-3", "w-2")


def test_shrinking_takes_whom_the_platform_will_take() -> None:
    """The oldest has the highest number, as after a StatefulSet replaced the others."""
    workers = tuple(Worker(f"ads-{n}", WorkerPhase.READY, started_at_s=100.0 - n) for n in range(11))
    seen = an_observation(rate=200, pool=PoolState(11, workers))
    policy = a_policy(options={"settle_s": 0, "utilisation": 1})

    def removed(victims: Victims) -> tuple[str, ...]:
        decision = decide(replace(seen, victims=victims), ControlState(planned=11), policy)
        assert decision.resize is not None
        return decision.resize.remove

    assert removed(Victims.HIGHEST) == tuple(f"ads-{n}" for n in range(10, 1, -1))
    assert removed(Victims.ANY)[0] == "ads-0"
    assert removed(Victims.NONE) == ()


def test_one_that_crashes_does_not_hide_whom_a_stateful_set_takes() -> None:
    phases = {0: WorkerPhase.FAILED, 1: WorkerPhase.FAILED}
    workers = tuple(Worker(f"ads-{n}", phases.get(n, WorkerPhase.READY), 0.0) for n in range(5))
    seen = replace(an_observation(rate=300, pool=PoolState(5, workers)), victims=Victims.HIGHEST)

    decision = decide(seen, ControlState(planned=5), a_policy(options={"settle_s": 0, "utilisation": 1}))

    assert decision.resize is not None
    assert (decision.resize.workers, decision.resize.remove) == (3, ("ads-4", "ads-3"))


@pytest.mark.parametrize("rate", [200, 500])
def test_nobody_is_named_to_leave_while_the_platform_replaces_workers_itself(rate: float) -> None:
    """Four were asked for, and a rollout has two more there: neither growing nor shrinking names any."""
    seen = an_observation(rate=rate, pool=replace(a_pool(6), requested=4, replacing=True))

    decision = decide(seen, ControlState(planned=4), a_policy(options={"settle_s": 0, "utilisation": 1}))

    assert decision.resize is not None
    assert (decision.resize.workers, decision.resize.remove) == (rate / 100, ())
    assert decision.assignment is not None
    assert len(decision.assignment.workers()) == 6, "all that are there train"


def test_workers_that_leave_lose_their_partitions_in_the_same_decision() -> None:
    seen = an_observation(rate=200, pool=a_pool(4))

    decision = decide(seen, ControlState(planned=4), a_policy(options={"settle_s": 0, "utilisation": 1}))

    assert decision.assignment is not None
    assert decision.assignment.workers() == {"w-0", "w-1"}


def test_only_ready_workers_are_assigned() -> None:
    decision = decide(an_observation(rate=300, pool=a_pool(3, ready=2)), ControlState(), a_policy())

    assert decision.assignment is not None
    assert decision.assignment.workers() == {"w-0", "w-1"}


def test_an_unchanged_assignment_is_not_sent_again() -> None:
    first = decide(an_observation(pool=a_pool(1)), ControlState(), a_policy())
    second = decide(an_observation(pool=a_pool(1)), first.state, a_policy())

    assert first.assignment is not None
    assert second.assignment is None


def test_shadow_mode_plans_but_does_not_act() -> None:
    decision = decide(an_observation(rate=450), ControlState(), a_policy(mode=Mode.RECOMMEND))

    assert decision.planned == 5
    assert decision.resize is None
    assert Reason.RECOMMEND_ONLY in decision.notes


def test_without_leases_partitions_bound_the_pool() -> None:
    seen = an_observation(rate=900, partitions=4)

    bound = decide(seen, ControlState(), a_policy(shuffle=Shuffle.OFF))

    assert bound.planned == 4
    assert Reason.AT_PARTITIONS in bound.notes
    assert decide(seen, ControlState(), a_policy()).planned == 9


def test_staleness_bounds_the_pool_and_is_named() -> None:
    seen = an_observation(rate=900, partitions=4)

    bound = decide(seen, ControlState(), replace(a_policy(), workers_unstale_max=6))
    both = decide(seen, ControlState(), replace(a_policy(shuffle=Shuffle.OFF), workers_unstale_max=6))
    free = decide(seen, ControlState(), replace(a_policy(workers_max=5), workers_unstale_max=6))

    assert (bound.planned, both.planned, free.planned) == (6, 4, 5)
    assert Reason.AT_STALENESS in bound.notes
    assert Reason.AT_PARTITIONS in both.notes
    assert Reason.AT_MAXIMUM in free.notes


def test_an_override_is_held_to_the_staleness_allowed() -> None:
    wish = Override(workers=9, until_s=1e12)
    policy = replace(a_policy(), workers_unstale_max=6, override=wish)

    decision = decide(an_observation(rate=100), ControlState(), policy)

    assert decision.planned == 6
    assert Reason.AT_STALENESS in decision.notes


def test_what_the_platform_takes_bounds_the_pool_and_is_named() -> None:
    full = replace(a_pool(4), most=4)

    decision = decide(an_observation(rate=900, pool=full), ControlState(), a_policy(options=QUICK))

    assert (decision.planned, decision.resize) == (4, None)
    assert Reason.AT_PLATFORM in decision.notes


@pytest.mark.parametrize("rule", ["penstock", "reactive"])
@pytest.mark.parametrize("workers_max", [10, 2])
def test_a_pool_is_not_asked_to_shrink_below_what_others_keep(rule: str, workers_max: int) -> None:
    """Not even to its own maximum: it would be asked at every tick, and never be done."""
    policy = a_policy(rule=rule, options=QUICK, workers_max=workers_max)

    decision = decide(an_observation(rate=50, pool=replace(a_pool(3), least=3)), ControlState(), policy)

    assert (decision.planned, decision.resize) == (3, None)


def test_who_overrides_what_others_keep_is_told_what_binds() -> None:
    policy = replace(a_policy(), override=Override(1, until_s=2000.0))

    decision = decide(an_observation(pool=replace(a_pool(3), least=3)), ControlState(), policy)

    assert (decision.planned, decision.reason) == (3, Reason.OVERRIDE)
    assert Reason.AT_PLATFORM in decision.notes


def test_what_others_keep_does_not_make_a_pool_grow() -> None:
    """A disruption budget of more pods than there are is somebody's mistake, not a wish for more."""
    budgeted = replace(a_pool(1), least=8)

    decision = decide(an_observation(rate=50, pool=budgeted), ControlState(), a_policy(options=QUICK))

    assert (decision.planned, decision.resize) == (1, None)


def test_traffic_beyond_the_maximum_says_which_limit_binds() -> None:
    decision = decide(an_observation(rate=5000), ControlState(planned=1), a_policy(workers_max=3))

    assert decision.planned == 3
    assert Reason.AT_MAXIMUM in decision.notes


def test_a_degraded_meter_is_told_with_the_decision_it_led_to() -> None:
    seen = an_observation(rate=450)
    degraded = replace(seen, traffic=replace(seen.traffic, degraded="2 partitions: no leader"))

    decision = decide(degraded, ControlState(), a_policy())

    assert Reason.DEGRADED_METER in decision.notes
    assert decision.planned == 5, "the last good values are decided on"
    assert Reason.DEGRADED_METER not in decide(seen, ControlState(), a_policy()).notes


def test_the_late_share_is_among_the_numbers_where_it_is_counted() -> None:
    seen = an_observation()
    counted = replace(seen, traffic=replace(seen.traffic, late_share=0.02))

    assert decide(counted, ControlState(), a_policy()).numbers["late_share_measured"] == 0.02
    assert "late_share_measured" not in decide(seen, ControlState(), a_policy()).numbers


def test_lost_workers_are_told_once() -> None:
    first = decide(an_observation(pool=a_pool(2, failures=1)), ControlState(), a_policy())
    second = decide(an_observation(pool=a_pool(2, failures=1)), first.state, a_policy())

    assert Reason.WORKERS_LOST in first.notes
    assert Reason.WORKERS_LOST not in second.notes


def test_the_speed_of_workers_is_learned_from_busy_time() -> None:
    reports = (WorkerReport("w-0", at_s=1000, trained=10, busy=0.3, rate_per_busy_s=200.0),)

    decision = decide(an_observation(rate=350, reports=reports), ControlState(), a_policy())

    assert decision.planned == 2  # and not 4, as the prior of 100/s would have it


@pytest.mark.parametrize("lie", [0.0, -5.0, float("nan"), float("inf")])
def test_a_lying_speed_moves_nothing(lie: float) -> None:
    reports = (WorkerReport("w-0", at_s=1000, trained=10, busy=0.9, rate_per_busy_s=lie),)

    assert decide(an_observation(rate=400, reports=reports), ControlState(), a_policy()).planned == 4


def test_another_rule_starts_with_a_memory_of_its_own() -> None:
    state = decide(an_observation(), ControlState(), a_policy()).state

    decision = decide(an_observation(), state, a_policy(rule="reactive"))

    assert decision.state.rule == "reactive"


def test_a_repeated_tick_asks_for_the_same_thing() -> None:
    seen, state = an_observation(rate=450, coming=600), ControlState(sequence=41, planned=2)

    first, again = (decide(seen, state, a_policy()) for _ in range(2))

    assert first == again
    assert first.id == "clicks-42"


@given(
    rate=st.floats(0, 1e7),
    lag=st.integers(0, 10**9),
    coming=st.none() | st.floats(0, 1e7),
    requested=st.integers(0, 30),
    workers_max=st.integers(1, 12),
    data=st.data(),
)
def test_the_plan_stays_in_bounds_whatever_is_seen(
    rate: float, lag: int, coming: float | None, requested: int, workers_max: int, data: st.DataObject
) -> None:
    policy = a_policy(workers_min=data.draw(st.integers(0, workers_max)), workers_max=workers_max)
    ready = data.draw(st.integers(0, requested))
    seen = an_observation(rate=rate, lag=lag, coming=coming, pool=a_pool(requested, ready=ready))

    decision = decide(seen, ControlState(), policy)

    assert policy.limits.workers_min <= decision.planned <= policy.limits.workers_max
    if decision.resize is not None:
        assert len(decision.resize.remove) == max(0, requested - decision.planned)


@given(rate=st.floats(1, 1e5), more=st.floats(1, 1e5))
def test_more_traffic_never_means_fewer_workers(rate: float, more: float) -> None:
    policy = a_policy(workers_max=1000)
    less = decide(an_observation(rate=rate, coming=rate), ControlState(), policy)
    extra = decide(an_observation(rate=rate + more, coming=rate + more), ControlState(), policy)

    assert extra.planned >= less.planned


def test_a_state_is_carried_on_whole() -> None:
    state = ControlState(sequence=3, planned=2)

    after = decide(an_observation(), state, a_policy()).state

    assert replace(after, sequence=4) == after
    assert after.planned is not None
    assert after.pool.times is not None


def test_an_override_beats_the_rule_until_it_expires_and_says_what_the_rule_wanted() -> None:
    policy = replace(a_policy(), override=Override(7, until_s=2000.0))

    during = decide(an_observation(rate=100, at_s=1999.0), ControlState(planned=1), policy)
    after = decide(an_observation(rate=100, at_s=2000.0), ControlState(planned=1), policy)

    assert (during.planned, during.reason, during.numbers["rule_workers"]) == (7, Reason.OVERRIDE, 1.0)
    assert (after.planned, after.reason) == (1, Reason.STEADY)


def test_an_override_stays_within_the_limits() -> None:
    policy = replace(a_policy(workers_max=5), override=Override(7, until_s=9999.0))

    decision = decide(an_observation(), ControlState(planned=1), policy)

    assert decision.planned == 5
    assert Reason.AT_MAXIMUM in decision.notes


def test_a_paused_pool_is_left_as_it_is_whatever_comes() -> None:
    policy = replace(a_policy(workers_min=3), paused=True)

    decision = decide(an_observation(rate=900, pool=a_pool(2)), ControlState(planned=4), policy)

    assert (decision.planned, decision.reason, decision.resize) == (2, Reason.PAUSED, None)
    assert decision.numbers["rule_workers"] == 9.0


def test_an_override_beats_a_pause() -> None:
    policy = replace(a_policy(), paused=True, override=Override(3, until_s=9999.0))

    assert decide(an_observation(), ControlState(planned=1), policy).planned == 3
