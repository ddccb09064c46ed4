"""What stands in when something is missing or bad: each with its reason, and both ways by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.api.words import WORDS
from services.control.breaker import BreakerTerms
from services.control.decide import decide
from services.control.safety import SafetyLimits
from services.control.types import ControlState, Decision, Observation, Policy, Reason
from tests.control.worlds import a_policy, a_pool, an_observation

QUICK = a_policy(options={"utilisation": 1.0, "settle_s": 0.0})


def scored(seen: Observation, score: float | None, *, trouble: str = "") -> Observation:
    assert seen.forecast is not None
    return replace(seen, forecast=replace(seen.forecast, score=score, trouble=trouble))


def story(policy: Policy, *seen: Observation, state: ControlState | None = None) -> list[Decision]:
    state = state or ControlState()
    told: list[Decision] = []
    for one in seen:
        told.append(decide(one, state, policy))
        state = told[-1].state
    return told


def test_a_cold_start_sizes_from_what_is_seen_until_there_is_a_forecast_and_again_without_one() -> None:
    cold, warm, alone = story(
        QUICK,
        an_observation(at_s=1000.0, rate=300.0, pool=a_pool(0)),
        an_observation(at_s=1010.0, rate=300.0, coming=500.0, pool=a_pool(3)),
        an_observation(at_s=1020.0, rate=300.0, pool=a_pool(5)),
    )

    assert (cold.planned, cold.reason) == (3, Reason.COLD_START)
    assert Reason.NO_FORECAST in cold.notes
    assert cold.forecast is None
    assert (warm.planned, warm.reason) == (5, Reason.FORECAST_RISE)
    assert warm.forecast is not None
    assert (warm.forecast.model, warm.forecast.heeded) == ("flat", True)
    assert (alone.planned, alone.forecast) == (3, None)
    assert Reason.NO_FORECAST in alone.notes


@pytest.mark.parametrize("rule", ["penstock", "reactive"])
def test_a_forecast_with_a_bad_live_score_is_not_heeded_until_it_is_good_again(rule: str) -> None:
    policy = a_policy(rule=rule, options={"utilisation": 1.0, "settle_s": 0.0})
    seen = an_observation(rate=300.0, coming=800.0, pool=a_pool(3))

    bad, good, bad_again = story(policy, scored(seen, 0.9), scored(seen, 0.05), scored(seen, 0.9))

    for one in (bad, bad_again):
        assert one.planned == 3
        assert Reason.BAD_FORECAST in one.notes
        assert one.forecast is not None
        assert not one.forecast.heeded
        assert one.numbers["forecast_score"] == 0.9
    assert good.planned == (8 if rule == "penstock" else 3)
    assert Reason.BAD_FORECAST not in good.notes


def test_a_forecast_not_scored_yet_is_given_a_chance() -> None:
    (decision,) = story(QUICK, scored(an_observation(rate=300.0, coming=800.0, pool=a_pool(3)), None))

    assert decision.planned == 8


def test_a_fallback_forecast_is_told_with_its_trouble_while_it_stands_in() -> None:
    seen = an_observation(rate=300.0, coming=400.0, pool=a_pool(3))

    standing_in, back = story(QUICK, scored(seen, 0.1, trouble="patchtst failed"), scored(seen, 0.1))

    assert Reason.FALLBACK_FORECAST in standing_in.notes
    assert standing_in.forecast is not None
    assert standing_in.forecast.trouble == "patchtst failed"
    assert Reason.FALLBACK_FORECAST not in back.notes


def test_a_stale_meter_holds_the_plan_and_a_fresh_one_goes_on() -> None:
    sized, stale, fresh = story(
        QUICK,
        an_observation(at_s=1000.0, rate=300.0, pool=a_pool(1)),
        an_observation(at_s=1100.0, measured_at_s=1000.0, rate=900.0, pool=a_pool(3)),
        an_observation(at_s=1105.0, rate=900.0, pool=a_pool(3)),
    )

    assert sized.planned == 3
    assert (stale.planned, stale.reason, stale.resize) == (3, Reason.STALE_METER, None)
    assert (fresh.planned, fresh.reason) == (9, Reason.TRAFFIC_RISE)


def test_a_broken_pool_is_left_alone_for_a_while_and_asked_again_when_it_may_be_mended() -> None:
    terms = BreakerTerms(failures=3, open_s=30.0)
    policy = replace(QUICK, safety=SafetyLimits(breaker=terms))
    refused = [an_observation(at_s=1000.0 + 5 * i, rate=450.0, pool=a_pool(2)) for i in range(4)]
    mended = [
        an_observation(at_s=1060.0, rate=450.0, pool=a_pool(2)),
        an_observation(at_s=1065.0, rate=450.0, pool=a_pool(5)),
        an_observation(at_s=1070.0, rate=650.0, pool=a_pool(5)),
    ]

    *_, held, tried, taken, grown = story(policy, *refused, *mended, state=ControlState(planned=2))

    assert (held.planned, held.reason, held.resize) == (2, Reason.BREAKER_OPEN, None)
    assert tried.resize is not None
    assert Reason.BREAKER_OPEN not in (taken.reason, *taken.notes)
    assert (grown.planned, grown.reason) == (7, Reason.TRAFFIC_RISE)


def test_every_reason_has_its_words() -> None:
    assert WORDS.keys() == set(Reason)
