"""Whatever is seen, the whole tick answers with a plan within its limits, and says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from estimator.rules import rule_named
from estimator.situation import Limits, Slo
from services.control.breaker import BreakerTerms
from services.control.decide import decide
from services.control.errors import TrafficUnavailable
from services.control.safety import SafetyLimits
from services.control.types import (
    ControlState,
    Decision,
    Observation,
    Policy,
    Reason,
    Shuffle,
    TrafficReading,
    WorkerReport,
)
from tests.control.worlds import a_policy, a_pool, an_observation

NAN, INF = math.nan, math.inf


def reports(workers: int, **said: Any) -> tuple[WorkerReport, ...]:
    usual: dict[str, Any] = {"at_s": 0.0, "trained": 10, "busy": 0.8, "rate_per_busy_s": 100.0}
    return tuple(WorkerReport(f"w-{i}", **{**usual, **said}) for i in range(workers))


def followed(
    policy: Policy,
    look: Callable[[int, int], Observation],
    *,
    ticks: int,
    requested: int = 4,
    state: ControlState | None = None,
) -> list[Decision]:
    """The loop closed: `look(tick, requested)` is what the next tick sees of the pool asked for."""
    state = state or ControlState()
    told: list[Decision] = []
    for tick in range(ticks):
        decision = decide(look(tick, requested), state, policy)
        state, requested = decision.state, decision.planned
        told.append(decision)
    return told


def is_sound(decision: Decision, policy: Policy) -> bool:
    within = policy.limits.workers_min <= decision.planned <= policy.limits.workers_max
    return within and all(math.isfinite(value) for value in decision.numbers.values())


LIES: list[dict[str, float]] = [
    {"busy": NAN},
    {"busy": -0.5},
    {"busy": 3.0},
    {"rate_per_busy_s": NAN},
    {"rate_per_busy_s": -100.0},
    {"rate_per_busy_s": INF},
    {"rate_per_busy_s": 1e300},
    {"busy": 0.0},
    {"rate_per_busy_s": 0.0},
    {"trained": -5, "busy": 1.0, "rate_per_busy_s": 0.0},
]


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_telemetry_that_lies_moves_no_plan(lie: dict[str, float]) -> None:
    policy = a_policy(rule="reactive", options={"utilisation": 1.0, "settle_s": 0.0})

    def told(said: dict[str, float] | None) -> list[Decision]:
        def look(tick: int, requested: int) -> Observation:
            lying = () if said is None else reports(requested, **said)
            return an_observation(at_s=10.0 * tick, rate=380.0, pool=a_pool(requested), reports=lying)

        return followed(policy, look, ticks=60)

    lied, silent = told(lie), told(None)

    assert [one.planned for one in lied] == [one.planned for one in silent]
    assert all(is_sound(one, policy) for one in lied)


@pytest.mark.parametrize("lie", LIES[:7], ids=str)
def test_a_worker_that_cannot_be_right_is_counted_for_the_operator(lie: dict[str, float]) -> None:
    seen = an_observation(pool=a_pool(4), reports=(*reports(3), *reports(4, **lie)[3:]))

    twice = decide(seen, decide(seen, ControlState(), a_policy()).state, a_policy())

    assert twice.state.throughput.refused == 2


def test_one_that_lies_among_three_that_do_not_does_not_count() -> None:
    policy = a_policy(workers_max=64)

    def look(tick: int, requested: int) -> Observation:
        liar = WorkerReport("w-3", 0.0, 10, 0.5, 1e9 if tick % 2 else NAN)
        said = (*reports(3, rate_per_busy_s=200.0), liar)[: 4 if tick % 2 == 0 else 3]
        return an_observation(at_s=10.0 * tick, rate=500.0, pool=a_pool(4), reports=said)

    last = followed(policy, look, ticks=40)[-1]

    assert last.state.throughput.model.samples_per_s(4) == pytest.approx(800.0, rel=0.05)


@pytest.mark.parametrize("times", [3.0, 10.0])
def test_workers_that_count_too_many_samples_do_not_keep_the_pool_too_small(times: float) -> None:
    """Each trains 100 a second, by the offsets, and says that it is several times as fast."""
    policy, lag = a_policy(workers_max=20), 0.0

    def look(tick: int, requested: int) -> Observation:
        nonlocal lag
        trained = min(100.0 * requested, 700.0 + lag / 10.0)
        lag += 10.0 * (700.0 - trained)
        said = reports(requested, busy=trained / (100.0 * requested), rate_per_busy_s=100.0 * times)
        seen = an_observation(at_s=10.0 * tick, rate=700.0, lag=int(lag), pool=a_pool(requested))
        return replace(seen, reports=said, traffic=replace(seen.traffic, trained_per_s=trained))

    told = followed(policy, look, ticks=180)

    assert told[-1].planned >= 7
    assert lag < 60 * 700.0, "within the SLO"


def test_workers_that_are_ready_and_have_not_begun_make_no_liars_of_the_others() -> None:
    """Four of eight train and report; the offsets show half of what eight will train."""

    def look(tick: int, requested: int) -> Observation:
        seen = an_observation(at_s=10.0 * tick, rate=800.0, lag=100_000, pool=a_pool(requested))
        return replace(seen, reports=reports(4, busy=1.0), traffic=replace(seen.traffic, trained_per_s=400.0))

    model = followed(a_policy(workers_max=8), look, ticks=12, requested=8)[-1].state.throughput.model

    assert model.knowledge.lies == {}
    assert model.samples_per_s(8) == pytest.approx(800.0, rel=0.05)


def test_throughput_that_falls_as_workers_are_added_is_not_chased_to_the_maximum() -> None:
    policy = a_policy(workers_max=64, rule="reactive", options={"utilisation": 1.0, "settle_s": 0.0})

    def able(workers: int) -> float:
        """Most at ten workers: every pair costs."""
        return 100.0 * workers / (1 + 0.01 * workers * (workers - 1))

    def look(tick: int, requested: int) -> Observation:
        speed = able(requested) / requested
        said = reports(requested, busy=1.0, rate_per_busy_s=speed)
        seen = an_observation(at_s=10.0 * tick, rate=700.0, lag=7000 + 2000 * tick, pool=a_pool(requested))
        return replace(
            seen, reports=said, traffic=replace(seen.traffic, trained_per_s=able(requested), lag_s=600.0)
        )

    told = followed(policy, look, ticks=400)

    settled = {one.planned for one in told[300:]}
    assert max(settled) <= 24, "never near the 64 that it might have"
    assert any({Reason.NO_GAIN, Reason.AT_REACH} & {one.reason, *one.notes} for one in told)
    assert all(is_sound(one, policy) for one in told)
    assert able(told[-1].planned) > 0.7 * able(10)


def test_a_pool_that_never_becomes_ready_is_waited_for_ever_longer_and_then_left_alone() -> None:
    safety = SafetyLimits(breaker=BreakerTerms(failures=2, open_s=60.0))
    policy = replace(a_policy(workers_max=12), safety=safety)

    def look(tick: int, requested: int) -> Observation:
        seen = an_observation(at_s=10.0 * tick, rate=500.0, lag=4000 * tick, pool=a_pool(requested, ready=1))
        return replace(seen, traffic=replace(seen.traffic, trained_per_s=100.0))

    told = followed(policy, look, ticks=360, requested=1)

    assert all(is_sound(one, policy) for one in told)
    assert told[-1].numbers["lead_time_s"] > 1800.0
    assert Reason.SLO_BELOW_LEAD_TIME in told[-1].notes
    assert any("none has come" in one.state.safety.up.why for one in told)


@pytest.mark.parametrize("rule", ["penstock", "reactive", "hpa"])
def test_an_slo_below_the_lead_time_is_said_whatever_the_rule(rule: str) -> None:
    short = replace(a_policy(), rule=rule_named(rule), slo=Slo(10.0, 0.01), lead_time_s=120.0)
    long = replace(short, slo=Slo(300.0, 0.01))
    seen = an_observation(rate=300.0, pool=a_pool(3))

    said, fine = decide(seen, ControlState(), short), decide(seen, ControlState(), long)

    assert Reason.SLO_BELOW_LEAD_TIME in said.notes
    assert said.numbers["lead_time_s"] == 120.0, "the best to be had for traffic that nobody foresaw"
    assert Reason.SLO_BELOW_LEAD_TIME not in fine.notes


@pytest.mark.parametrize("fewest", [0, 1])
def test_zero_traffic_for_hours_empties_the_pool_as_far_as_is_allowed_and_traffic_fills_it(
    fewest: int,
) -> None:
    policy = replace(a_policy(), limits=Limits(fewest, 10))

    def look(tick: int, requested: int) -> Observation:
        rate = 400.0 if tick < 5 or tick >= 400 else 0.0
        return an_observation(at_s=30.0 * tick, rate=rate, pool=a_pool(requested))

    told = followed(policy, look, ticks=402)

    assert told[4].planned == 4
    assert told[399].planned == fewest
    assert told[401].planned == 4
    assert all(is_sound(one, policy) for one in told)


@pytest.mark.parametrize("rule", ["penstock", "reactive"])
def test_traffic_beyond_the_most_workers_says_which_share_will_be_late(rule: str) -> None:
    policy = a_policy(rule=rule, workers_max=6)

    def look(tick: int, requested: int) -> Observation:
        return an_observation(at_s=10.0 * tick, rate=800.0, pool=a_pool(requested))

    last = followed(policy, look, ticks=20)[-1]

    assert last.planned == 6
    assert Reason.AT_MAXIMUM in last.notes
    assert last.numbers["beyond_share"] == pytest.approx(0.25)


def test_a_partition_that_brings_more_than_one_worker_trains_is_said_to_be_beyond_any_pool() -> None:
    """Kafka gives a partition to one worker, who trains 100 a second of the 400 that this one brings."""
    seen = an_observation(rate=500.0, pool=a_pool(4), partitions=4)
    hot = replace(seen, traffic=replace(seen.traffic, partition_rates=(400.0, 50.0, 25.0, 25.0)))

    decision = decide(hot, ControlState(), a_policy(shuffle=Shuffle.GROUP))

    assert decision.numbers["beyond_share"] == pytest.approx(0.6), "300 of 500"


def test_where_the_most_workers_are_enough_nothing_is_said_to_be_beyond_them() -> None:
    assert "beyond_share" not in decide(an_observation(rate=900.0), ControlState(), a_policy()).numbers


def test_workers_that_were_asked_for_before_the_first_was_seen_are_not_called_off_as_the_first_comes() -> (
    None
):
    """A slow pool: nine were asked for from the operator's guess, one is ready long before the others."""
    policy = a_policy(workers_max=12)

    def look(tick: int, requested: int) -> Observation:
        ready = 0 if tick < 3 else 1 if tick < 30 else requested
        said = reports(ready, busy=1.0)
        seen = an_observation(at_s=10.0 * tick, rate=900.0, lag=9000, pool=a_pool(requested, ready=ready))
        return replace(seen, reports=said, traffic=replace(seen.traffic, trained_per_s=100.0 * ready))

    told = followed(policy, look, ticks=29, requested=0)

    assert told[-1].state.throughput.model.sizes_seen == (1,)
    assert min(one.planned for one in told) >= 9


@pytest.mark.parametrize(
    "wrong",
    [
        *({name: NAN} for name in ("at_s", "rate_per_s", "trained_per_s", "lag_s", "late_share")),
        *({"lag_s": INF}, {"rate_per_s": -INF}, {"partition_rates": (1.0, NAN)}),
    ],
    ids=str,
)
def test_a_reading_that_is_no_number_is_refused_before_a_tick_can_remember_it(wrong: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"at_s": 0.0, "rate_per_s": 1.0, "trained_per_s": 1.0, "lag": 0, "lag_s": 0.0}

    with pytest.raises(TrafficUnavailable, match=next(iter(wrong))):
        TrafficReading(**{**usual, **wrong})
