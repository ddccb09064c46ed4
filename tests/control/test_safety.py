"""Safety: how far and how often a pool may be moved, and when it is held because moving it is in vain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.situation import Limits
from services.control.breaker import Breaker, BreakerPhase, BreakerTerms
from services.control.decide import decide
from services.control.rolling_count import RollingCount
from services.control.safety import (
    Asked,
    PoolNow,
    SafetyLimits,
    SafetyMemory,
    judged,
    restrained,
)
from services.control.types import ControlState, Decision, Override, Policy, PoolState, Reason
from tests.control.worlds import a_policy, a_pool, an_observation

TERMS = BreakerTerms(failures=3, open_s=30.0, open_max_s=100.0)


def careful(safety: SafetyLimits, *, workers_min: int = 1, workers_max: int = 10) -> Policy:
    return replace(a_policy(workers_min=workers_min, workers_max=workers_max), safety=safety)


def next_tick(
    before: Decision | ControlState, policy: Policy, *, at_s: float, rate: float, pool: PoolState
) -> Decision:
    state = before.state if isinstance(before, Decision) else before
    return decide(an_observation(at_s=at_s, rate=rate, pool=pool), state, policy)


# Counting


@given(
    span_s=st.floats(1.0, 1e5),
    gaps_s=st.lists(st.floats(0.0, 1e5), max_size=60),
    most=st.integers(1, 6),
)
def test_whoever_acts_below_the_count_never_acts_more_often_in_any_stretch(
    span_s: float, gaps_s: list[float], most: int
) -> None:
    count, now_s, acted = RollingCount(span_s), 1e9, []
    for gap_s in gaps_s:
        now_s += gap_s
        if count.at(now_s) < most:
            count = count.noted(now_s)
            acted.append(now_s)

    for i, first in enumerate(acted):
        assert sum(at_s - first < span_s for at_s in acted[i:]) <= most


@given(st.lists(st.floats(-1e6, 1e6), max_size=40))
def test_a_count_is_small_and_ends_whatever_the_clock_does(moves_s: list[float]) -> None:
    count, now_s = RollingCount(3600.0), 1e9
    for move_s in moves_s:
        now_s += move_s
        count = count.noted(now_s)
        assert len(count.bins) <= 13
        assert count.at(now_s) >= 1

    assert count.aged(now_s).at(now_s + 3600.0 * 13 / 12 + 1) == 0


# The breaker


def test_a_breaker_opens_after_failures_in_a_row_and_waits_twice_as_long_each_time() -> None:
    breaker = Breaker()
    for _ in range(2):
        breaker = breaker.failed(0.0, "refused", TERMS)
    assert breaker.phase(0.0) is BreakerPhase.CLOSED
    waits = []
    now_s = 0.0
    for _ in range(4):
        breaker = breaker.failed(now_s, "refused", TERMS)
        assert breaker.until_s is not None
        waits.append(breaker.until_s - now_s)
        now_s = breaker.until_s
        assert breaker.phase(now_s) is BreakerPhase.HALF_OPEN

    assert waits == [30.0, 60.0, 100.0, 100.0]


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker().failed(0.0, "a", TERMS).failed(1.0, "b", TERMS).succeeded().failed(2.0, "c", TERMS)

    assert breaker.phase(2.0) is BreakerPhase.CLOSED
    assert breaker.failures == 1


def refusals(policy: Policy, times: int, *, state: ControlState | None = None) -> Decision:
    """The pool stays at 2 though 5 are asked for, `times` ticks long."""
    decision: Decision | ControlState = state or ControlState(planned=2)
    for tick in range(times):
        decision = next_tick(decision, policy, at_s=1000.0 + 5 * tick, rate=450, pool=a_pool(2))
    assert isinstance(decision, Decision)
    return decision


def test_resizes_that_the_platform_does_not_take_open_the_breaker_with_its_reason() -> None:
    policy = careful(SafetyLimits(breaker=TERMS))

    trying, held = refusals(policy, 3), refusals(policy, 4)

    assert (trying.planned, trying.resize is None) == (5, False)
    assert (held.planned, held.reason, held.resize) == (2, Reason.BREAKER_OPEN, None)
    assert held.numbers["rule_workers"] == 5.0
    assert held.numbers["breaker_up_wait_s"] == 30.0
    assert "stayed at 2" in held.state.safety.up.why


def test_a_breaker_half_opens_for_one_try_and_closes_when_it_works() -> None:
    policy = careful(SafetyLimits(breaker=TERMS))
    held = refusals(policy, 4)

    tried = next_tick(held, policy, at_s=1050.0, rate=450, pool=a_pool(2))
    assert tried.resize is not None, "half-open"
    taken = next_tick(tried, policy, at_s=1055.0, rate=450, pool=a_pool(5, ready=2))
    more = next_tick(taken, policy, at_s=1060.0, rate=700, pool=a_pool(5, ready=2))
    assert (more.planned, more.reason) == (5, Reason.BREAKER_OPEN), "no second try while one is awaited"
    come = next_tick(more, policy, at_s=1065.0, rate=700, pool=a_pool(5, ready=3))

    assert come.state.safety.up == Breaker()
    assert come.planned == 7


def test_a_try_that_fails_too_holds_the_pool_for_twice_as_long() -> None:
    policy = careful(SafetyLimits(breaker=TERMS))
    tried = next_tick(refusals(policy, 4), policy, at_s=1050.0, rate=450, pool=a_pool(2))

    again = next_tick(tried, policy, at_s=1055.0, rate=450, pool=a_pool(2))

    assert again.reason is Reason.BREAKER_OPEN
    assert again.numbers["breaker_up_wait_s"] == 60.0


def test_a_clock_that_is_set_back_keeps_a_breaker_open_for_no_longer_than_it_waits() -> None:
    policy = careful(SafetyLimits(breaker=TERMS))
    held = refusals(policy, 5)

    after = next_tick(held, policy, at_s=1020.0 - 3600.0, rate=450, pool=a_pool(2))
    tried = next_tick(after, policy, at_s=1051.0 - 3600.0, rate=450, pool=a_pool(2))

    assert (held.reason, after.reason) == (Reason.BREAKER_OPEN, Reason.BREAKER_OPEN)
    assert tried.planned == 5


def test_a_clock_that_is_set_back_does_not_make_patience_longer_by_as_much() -> None:
    asked = Asked(5000.0, before=2, workers=4, ready=2, since_s=5000.0, accepted=True)
    memory = SafetyMemory(asked=asked)

    for at_s in (1000.0, 1120.0, 1240.0, 1360.0):
        memory = judged(memory, PoolNow(at_s, requested=4, ready=2, lead_time_s=30.0), TERMS)

    assert memory.up.failures == 3


def test_growth_that_is_refused_does_not_keep_a_pool_from_shrinking() -> None:
    policy = replace(
        careful(SafetyLimits(breaker=TERMS)), rule=a_policy(options={"settle_s": 0, "utilisation": 1}).rule
    )
    held = refusals(policy, 4)

    smaller = next_tick(held, policy, at_s=1025.0, rate=90, pool=a_pool(2))

    assert smaller.planned == 1


def test_workers_that_never_come_open_the_breaker() -> None:
    """Taken by the platform, as by a cluster without a free GPU: the size is there, the workers are not."""
    memory = SafetyMemory().resized(0.0, before=2, workers=5, ready=2)

    def waited(memory: SafetyMemory, at_s: float) -> SafetyMemory:
        return judged(memory, PoolNow(at_s, requested=5, ready=2, lead_time_s=60.0), TERMS)

    for at_s in (5.0, 100.0, 179.0):
        memory = waited(memory, at_s)
        assert memory.up.failures == 0, "patience"
    for at_s in (180.0, 360.0, 540.0):
        memory = waited(memory, at_s)
    assert memory.up.phase(540.0) is BreakerPhase.OPEN
    assert "none has come" in memory.up.why

    came = judged(memory, PoolNow(545.0, requested=5, ready=3, lead_time_s=60.0), TERMS)
    assert came.up == Breaker()


def test_growth_on_growth_is_awaited_from_the_first() -> None:
    memory = SafetyMemory().resized(0.0, before=2, workers=3, ready=2)
    for tick in range(1, 40):
        at_s = 5.0 * tick
        memory = judged(memory, PoolNow(at_s, requested=2 + tick, ready=2, lead_time_s=20.0), TERMS)
        memory = memory.resized(at_s, before=2 + tick, workers=3 + tick, ready=2)

    assert memory.up.phase(200.0) is BreakerPhase.OPEN, "each new size would have begun the wait anew"


def test_workers_that_train_hardly_more_count_as_no_help() -> None:
    memory = SafetyMemory()
    for n, wall_at_s in enumerate((10.0, 20.0, 30.0)):
        memory = memory.resized(wall_at_s, before=2 + n, workers=3 + n, ready=2 + n)
        now = PoolNow(wall_at_s + 5, requested=3 + n, ready=3 + n, lead_time_s=5.0, wall_at_s=wall_at_s)
        memory = judged(memory, now, TERMS)

    assert memory.up.phase(36.0) is BreakerPhase.OPEN
    assert memory.up.why == "more workers trained hardly more"


def test_half_of_the_way_is_not_a_failure() -> None:
    """A disruption budget keeps four of five when two are asked for."""
    memory = SafetyMemory().resized(0.0, before=5, workers=2, ready=5)

    assert judged(memory, PoolNow(5.0, requested=4, ready=5, lead_time_s=60.0), TERMS).down == Breaker()


def test_without_a_breaker_nothing_is_held_against_a_pool() -> None:
    assert refusals(careful(SafetyLimits()), 40).resize is not None


# Steps, rates and the budget


def test_one_resize_goes_no_further_than_a_step() -> None:
    policy = careful(SafetyLimits(step_up_max=2, step_down_max=1))

    grown = next_tick(ControlState(planned=2), policy, at_s=1000, rate=900, pool=a_pool(2))
    quick = replace(policy, rule=a_policy(options={"settle_s": 0, "utilisation": 1}).rule)
    shrunk = next_tick(ControlState(planned=5), quick, at_s=1000, rate=100, pool=a_pool(5))

    assert (grown.planned, Reason.AT_STEP in grown.notes) == (4, True)
    assert (shrunk.planned, Reason.AT_STEP in shrunk.notes) == (4, True)
    assert grown.numbers["rule_workers"] == 9.0


@pytest.mark.parametrize(
    ("safety", "reason"),
    [
        (SafetyLimits(resizes_per_hour=1), Reason.RESIZE_RATE),
        (SafetyLimits(resizes_per_day=1), Reason.RESIZE_BUDGET),
        (SafetyLimits(fleet_resizes_per_hour=1), Reason.FLEET_RESIZE_RATE),
    ],
)
def test_a_pool_that_was_resized_often_enough_is_held_and_says_why(
    safety: SafetyLimits, reason: Reason
) -> None:
    first = next_tick(ControlState(planned=1), careful(safety), at_s=1000, rate=250, pool=a_pool(1))
    second = next_tick(first, careful(safety), at_s=1005, rate=450, pool=a_pool(3))
    later = next_tick(second, careful(safety), at_s=1000 + 100_000, rate=450, pool=a_pool(3))

    assert first.planned == 3
    assert (second.planned, second.reason, second.resize) == (3, reason, None)
    assert later.planned == 5


def test_other_jobs_use_up_what_the_fleet_may() -> None:
    policy = careful(SafetyLimits(fleet_resizes_per_hour=10))
    seen = an_observation(rate=450)

    assert decide(replace(seen, resizes_elsewhere=9), ControlState(), policy).planned == 5
    held = decide(replace(seen, resizes_elsewhere=10), ControlState(), policy)
    assert (held.planned, held.reason) == (1, Reason.FLEET_RESIZE_RATE)


# What yields to what

TIGHTEST = SafetyLimits(
    step_up_max=1,
    step_down_max=1,
    resizes_per_hour=1,
    resizes_per_day=1,
    fleet_resizes_per_hour=1,
    breaker=BreakerTerms(failures=1),
)
EXHAUSTED = ControlState(
    planned=2,
    safety=SafetyMemory(
        hour=RollingCount(3600.0).noted(1000.0),
        day=RollingCount(86_400.0).noted(1000.0),
        up=Breaker(5, 1, 1e12, "refused"),
        down=Breaker(5, 1, 1e12, "refused"),
    ),
)


def test_an_override_is_obeyed_whatever_limits_are_spent() -> None:
    policy = replace(careful(TIGHTEST), override=Override(9, until_s=9e9))

    decision = decide(an_observation(pool=a_pool(2)), EXHAUSTED, policy)

    assert (decision.planned, decision.reason) == (9, Reason.OVERRIDE)


@pytest.mark.parametrize(("requested", "brought_to"), [(0, 3), (9, 6)])
def test_a_pool_outside_its_limits_is_brought_to_the_nearest_whatever_is_spent(
    requested: int, brought_to: int
) -> None:
    policy = careful(TIGHTEST, workers_min=3, workers_max=6)

    decision = decide(an_observation(rate=450, pool=a_pool(requested)), EXHAUSTED, policy)

    assert decision.planned == brought_to


def test_a_pause_beats_even_that() -> None:
    policy = replace(careful(TIGHTEST, workers_min=3), paused=True)

    assert decide(an_observation(pool=a_pool(1)), EXHAUSTED, policy).planned == 1


counts = st.integers(0, 5)


@given(
    planned=st.integers(0, 20),
    requested=st.integers(0, 20),
    least=st.integers(0, 10),
    room=st.integers(0, 10),
    safety=st.builds(
        SafetyLimits,
        step_up_max=st.none() | st.integers(1, 5),
        step_down_max=st.none() | st.integers(1, 5),
        resizes_per_hour=st.none() | st.integers(1, 3),
        resizes_per_day=st.none() | st.integers(1, 3),
        fleet_resizes_per_hour=st.none() | st.integers(1, 3),
        breaker=st.none() | st.just(TERMS),
    ),
    noted=counts,
    elsewhere=counts,
    up=st.sampled_from([Breaker(), Breaker(3, 1, 990.0, "x"), Breaker(3, 1, 1010.0, "x")]),
    down=st.sampled_from([Breaker(), Breaker(3, 1, 990.0, "x"), Breaker(3, 1, 1010.0, "x")]),
    asked=st.none() | st.builds(Asked, st.sampled_from([980.0, 995.0]), counts, counts, counts, st.just(0.0)),
)
def test_safety_never_overshoots_turns_around_or_leaves_the_limits(
    planned: int,
    requested: int,
    least: int,
    room: int,
    safety: SafetyLimits,
    noted: int,
    elsewhere: int,
    up: Breaker,
    down: Breaker,
    asked: Asked | None,
) -> None:
    bounds = Limits(least, least + room)
    planned = min(max(planned, bounds.workers_min), bounds.workers_max)
    must = min(max(requested, bounds.workers_min), bounds.workers_max)
    memory = SafetyMemory(up=up, down=down, asked=asked)
    for _ in range(noted):
        memory = replace(memory, hour=memory.hour.noted(999.0), day=memory.day.noted(999.0))

    size, why = restrained(
        planned, memory, safety, now_s=1000.0, requested=requested, must=must, elsewhere=elsewhere
    )

    assert bounds.workers_min <= size <= bounds.workers_max
    assert min(requested, planned) <= size <= max(requested, planned)
    assert (why is None) == (size == planned)
    if size != must and safety.resizes_per_hour is not None:
        assert noted < safety.resizes_per_hour
    if size != must and size > requested and safety.step_up_max is not None:
        assert size - requested <= max(safety.step_up_max, must - requested)


@settings(deadline=None, max_examples=50)
@given(
    rates=st.lists(st.sampled_from([0.0, 90.0, 250.0, 450.0, 900.0, 5000.0]), min_size=1, max_size=25),
    obeys=st.lists(st.booleans(), min_size=25, max_size=25),
)
def test_the_defaults_change_no_decision_of_a_pool_that_obeys(rates: list[float], obeys: list[bool]) -> None:
    """And of one that does not, only once it has refused several times in a row."""
    plain = a_policy(rule="reactive", options={"utilisation": 1.0})
    safe = replace(plain, safety=SafetyLimits(None, None, 360, 2000, 3600, TERMS))
    one = other = ControlState()
    requested = refused = 0
    for tick, (rate, obey) in enumerate(zip(rates, obeys, strict=False)):
        seen = an_observation(at_s=1000.0 + 5 * tick, rate=rate, pool=a_pool(requested))
        a, b = decide(seen, one, plain), decide(seen, other, safe)
        one, other = a.state, b.state
        if refused < TERMS.failures:
            assert (a.planned, a.reason, a.notes, a.resize) == (b.planned, b.reason, b.notes, b.resize)
        if a.resize is not None:
            refused = 0 if obey and refused < TERMS.failures else refused + 1
            requested = a.planned if obey else requested
