"""The rule `penstock`: what it asks for, when, and why."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from estimator.capacity import Capacity, Dealt, LearnedCapacity
from estimator.planner import choice
from estimator.planner.memory import PlannerMemory
from estimator.planner.planning import Planner
from estimator.planner.scores import Scores
from estimator.reason import Reason
from estimator.rules.penstock import PenstockMemory, penstock
from estimator.situation import Limits, Situation, Sizing, Slo
from estimator.throughput import ThroughputModel
from forecasting.forecast import Forecast
from tests.estimator.planner.histories import NOW_S, daily, history, planning

STEADY = np.full(3 * 1440, 1000.0)
WOBBLE = np.exp(0.02 * np.random.default_rng(5).standard_normal(3 * 1440))


def sized(seen: Situation, **options: Any) -> Sizing:
    """What a fresh rule says."""
    rule = penstock(**options)
    return rule.size(seen, rule.memory())[0]


def test_steady_traffic_gets_what_carries_it() -> None:
    assert sized(planning(STEADY)).workers == 10


def test_workers_that_die_are_made_up_for() -> None:
    """A life of a thousand seconds and a start of 180: of twelve workers ten train."""
    assert sized(planning(STEADY, deaths_per_s=1e-3)).workers == 12


def test_workers_that_start_slowly_are_asked_for_as_long_before_they_are_needed() -> None:
    """Ten carry the traffic of now; when those asked for now train, it will have grown by 7 %."""
    seen = planning(daily(7.0, noise=0.01), requested=10, rate_per_s=990.0, lead_time_s=1800.0)

    assert sized(seen).workers > 10


@pytest.mark.parametrize("requested", [5, 10, 14])
def test_it_decides_the_same_whether_it_explains_itself_or_not(requested: int) -> None:
    seen = planning(1000.0 * WOBBLE, requested=requested)

    said, unsaid = sized(seen), sized(seen, explains=False)

    assert unsaid.workers == said.workers
    missing = said.numbers.keys() - unsaid.numbers.keys()
    assert all(name.startswith("traffic_factor_") for name in missing)
    assert "traffic_factor_one_more" in missing


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rate=st.floats(50.0, 5000.0), more=st.floats(1.0, 3.0), spare=st.integers(0, 50))
def test_more_steady_traffic_never_means_fewer_workers(rate: float, more: float, spare: int) -> None:
    """Where resizes cost nothing and the pool carries either traffic: one that is far too small has a backlog
    to come, and how much of that is worth draining does not grow with the traffic."""
    rule, requested = penstock(price=30.0), int(np.ceil(1.2 * rate * more / 100.0)) + spare

    def at(mean: float) -> int:
        return rule.size(planning(mean * WOBBLE, requested=requested), rule.memory())[0].workers

    with patch.object(choice, "RESIZE_SHARE", 0.0), patch.object(choice, "GIVE_BACK_SHARE", 0.0):
        assert at(rate) <= at(rate * more)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rate=st.floats(100.0, 5000.0),
    slo_s=st.floats(20.0, 120.0),
    tighter=st.floats(0.3, 1.0),
    wobbles=st.booleans(),
)
@example(rate=100.2, slo_s=101.0, tighter=0.75, wobbles=True)
@example(rate=4484.1, slo_s=62.27, tighter=0.7127, wobbles=True)
def test_a_tighter_slo_never_means_fewer_workers_at_steady_traffic(
    rate: float, slo_s: float, tighter: float, wobbles: bool
) -> None:
    """Where resizes cost nothing: else a pool that is one too large may well be kept, the longer the SLO.

    Where traffic wobbles, two sizes may cost the same but for the steps of a rollout, which follow the SLO:
    then one worker more or less is chance.
    """

    def at(fresh_within_s: float) -> int:
        enough = int(np.ceil(rate / 100.0))
        rates = rate * (WOBBLE if wobbles else np.ones_like(WOBBLE))
        return sized(planning(rates, slo=Slo(fresh_within_s, 0.01), requested=enough)).workers

    with patch.object(choice, "RESIZE_SHARE", 0.0), patch.object(choice, "GIVE_BACK_SHARE", 0.0):
        assert at(slo_s) <= at(slo_s * tighter) + wobbles


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    low=st.integers(0, 20),
    width=st.integers(0, 60),
    live=st.floats(0.0, 1e5),
    lag=st.floats(0.0, 1e7),
    requested=st.integers(0, 90),
    pause_s=st.floats(0.0, 90.0),
    lead_time_s=st.floats(0.5, 20_000.0),
)
def test_the_plan_is_within_its_limits(
    low: int, width: int, live: float, lag: float, requested: int, pause_s: float, lead_time_s: float
) -> None:
    high = max(low + width, 1)
    seen = planning(
        daily(3.0), limits=Limits(low, high), rate_per_s=live, lag=lag, lag_s=lag / 1000.0,
        requested=requested, pause_s=pause_s, lead_time_s=lead_time_s,
    )  # fmt: skip

    sizing = sized(seen)

    assert low <= sizing.workers <= high + (sizing.numbers["late_share"] > 0.001), "one more: the limit binds"
    assert all(np.isfinite(value) for value in sizing.numbers.values())


def test_the_same_past_gives_the_same_plan_also_after_being_stored() -> None:
    rates = daily(3.0)
    first, second = penstock(), penstock()
    adapter: TypeAdapter[PenstockMemory] = TypeAdapter(PenstockMemory)
    before = planning(rates, now_s=NOW_S - 50, history=history(rates[:-1], end_s=NOW_S - 60))
    _, memory = first.size(before, first.memory())
    stored = adapter.validate_json(adapter.dump_json(memory))

    assert stored == memory
    assert first.size(planning(rates), memory) == second.size(planning(rates), stored)


def test_its_memory_stays_small() -> None:
    rule, memory = penstock(), PenstockMemory()
    rates = daily(4.0)
    for minute in range(300):
        end_s = NOW_S + 60.0 * minute
        seen = planning(rates, now_s=end_s + 10, history=history(rates[: 4000 + minute], end_s=end_s))
        _, memory = rule.size(seen, memory)

    assert len(TypeAdapter(PenstockMemory).dump_json(memory)) < 4000


def test_between_bins_it_holds_its_plan_without_planning() -> None:
    rule = penstock()
    plan, memory = rule.size(planning(STEADY), rule.memory())
    held, after = rule.size(planning(STEADY, now_s=NOW_S + 20), memory)

    assert held.workers == plan.workers
    assert after.planner.held is memory.planner.held


def test_a_jump_within_a_bin_is_planned_for_at_once() -> None:
    rule = penstock()
    _, memory = rule.size(planning(daily(3.0)), rule.memory())

    jumped, _ = rule.size(planning(daily(3.0), now_s=NOW_S + 20, rate_per_s=3000.0), memory)

    assert jumped.workers >= 14  # the mean of the bin so far has doubled
    assert jumped.reason is Reason.TRAFFIC_RISE


def test_a_forecast_made_before_a_jump_does_not_take_half_of_it_back() -> None:
    paths = np.full((2, 60), 1000.0)
    calm = Forecast(issued_at_s=NOW_S, step_s=60.0, paths=paths, model="test", levels=(0.5, 0.95))
    trusted = Scores(own=0.01, given=0.01, both=0.0099, own_count=99, given_count=99)
    assert trusted.trust == pytest.approx(0.5)
    rule, memory = penstock(), PenstockMemory(planner=PlannerMemory(scores=trusted))

    def jumped(forecast: Forecast | None) -> int:
        seen = planning(1000.0 * WOBBLE, now_s=NOW_S + 20, rate_per_s=3000.0, forecast=forecast)
        return rule.size(seen, memory)[0].workers

    assert jumped(None) > 20
    assert jumped(calm) == pytest.approx(jumped(None), abs=1)


def test_a_short_outage_does_not_empty_the_pool() -> None:
    rates = daily(3.0)
    rates[-4:] = 0.0

    assert sized(planning(rates, rate_per_s=0.0, trained_per_s=0.0)).workers >= 7


def test_nothing_for_hours_goes_to_the_least() -> None:
    rates = daily(3.0)
    rates[-300:] = 0.0

    assert sized(planning(rates, rate_per_s=0.0, trained_per_s=0.0)).workers <= 1


def test_nothing_for_hours_goes_to_zero_where_that_is_allowed() -> None:
    rates = daily(3.0)
    rates[-300:] = 0.0

    nothing = planning(rates, rate_per_s=0.0, trained_per_s=0.0, limits=Limits(0, 200))

    assert sized(nothing).workers == 0


@pytest.mark.parametrize(("waited_s", "workers"), [(1000.0, 0), (10_000.0, 1)])
def test_a_few_samples_that_came_at_night_do_not_wait_for_ever(waited_s: float, workers: int) -> None:
    """Five of them are worth a twentieth of a second of a worker, and no start."""
    night = np.concatenate([STEADY, np.zeros(300)])
    seen = planning(night, requested=0, lag=5.0, lag_s=waited_s, limits=Limits(0, 20))

    assert sized(seen).workers == workers


def test_where_the_platform_allows_nobody_nobody_is_asked_for() -> None:
    assert sized(planning(STEADY, requested=0, limits=Limits(0, 0))).workers == 1, "one more: the limit binds"


def test_a_step_limit_is_kept_and_named() -> None:
    seen = planning(STEADY * 3)
    free, limited = sized(seen), sized(seen, step_up_max=4, step_down_max=2)

    assert free.workers > 20
    assert (limited.workers, limited.notes[0]) == (14, Reason.AT_STEP)
    assert sized(planning(STEADY, requested=40), step_down_max=2).workers == 38
    assert sized(planning(STEADY, requested=150), step_down_max=1).workers == 149


def test_a_step_limit_does_not_keep_a_pool_outside_its_limits() -> None:
    assert sized(planning(STEADY, requested=40, limits=Limits(1, 20)), step_down_max=2).workers == 20


def test_an_slo_below_the_lead_time_is_named_with_the_best_to_be_had() -> None:
    jumped = sized(planning(STEADY, rate_per_s=3000.0, slo=Slo(30.0, 0.01)))
    easy = sized(planning(STEADY, slo=Slo(300.0, 0.01)))

    assert Reason.SLO_BELOW_LEAD_TIME in jumped.notes
    assert jumped.numbers["late_share_least"] > 0.05
    assert easy.notes == ()


@pytest.mark.parametrize("lead_time_s", [3600.0, 4 * 3600.0, 8 * 3600.0])
def test_a_lead_time_beyond_the_forecast_does_not_break_the_plan(lead_time_s: float) -> None:
    sizing = sized(planning(daily(8.0), lead_time_s=lead_time_s, requested=15))

    assert "price" in sizing.numbers
    assert 12 <= sizing.workers <= 20


def test_a_lead_time_of_days_is_too_long_to_plan_for_and_that_is_named() -> None:
    sizing = sized(planning(daily(8.0), lead_time_s=40 * 3600.0))

    assert (sizing.workers, sizing.notes) == (12, (Reason.NO_FORECAST,))


def test_with_scarce_gpus_the_pool_is_kept_for_the_day_to_come() -> None:
    # The day is at its lowest in 18 hours and at its highest in 6: ten workers' traffic becomes fifteen's.
    quick = sized(planning(daily(8.0), requested=15))
    scarce = sized(
        planning(daily(8.0), requested=15, lead_time_s=4 * 3600.0, lead_times_s=(120.0, 4 * 3600.0))
    )

    assert quick.workers < 12
    assert scarce.workers >= 14


def test_workers_that_may_come_soon_are_asked_for_though_they_may_take_hours() -> None:
    behind = {"lag": 60_000.0, "lag_s": 60.0, "requested": 9, "lead_time_s": 4 * 3600.0}

    assert sized(planning(STEADY, **behind, lead_times_s=(100.0, 120.0, 150.0, 4 * 3600.0))).workers > 10


def test_a_history_that_is_trimmed_does_not_cost_a_new_model_and_one_that_grows_back_does() -> None:
    planner = Planner(season_s=86_400.0)
    rates = daily(4.0)

    def model_of(first: int) -> object:
        seen = planning(rates, history=history(rates[first:]))
        return planner.model(seen, PlannerMemory(fitted_at_s=NOW_S))[0]

    whole = model_of(10)

    assert model_of(20) is whole
    assert model_of(0) is not whole


def test_a_backlog_is_drained_and_not_beyond_reason() -> None:
    # Two minutes of traffic wait: all late, but not worth a pool of any size.
    behind = sized(planning(STEADY, lag=120_000.0, lag_s=120.0))

    assert 11 <= behind.workers <= 40
    assert behind.reason is Reason.CATCH_UP


def test_starts_under_way_are_counted() -> None:
    rates = daily(3.0)
    rates[-1] = 1500.0
    without = sized(planning(rates, rate_per_s=1500.0))
    under_way = sized(
        planning(rates, rate_per_s=1500.0, requested=without.workers, ready=10,
                 starting_since_s=(NOW_S - 60,) * (without.workers - 10))
    )  # fmt: skip

    assert under_way.workers <= without.workers + 1


def test_a_small_saving_is_not_worth_a_resize() -> None:
    assert sized(planning(STEADY, requested=11)).workers in (10, 11)
    assert sized(planning(STEADY, requested=11, pause_s=60.0)).workers == 11


@pytest.mark.parametrize("lead_time_s", [120.0, 300.0])
def test_a_pool_that_falls_behind_grows_though_that_stops_everybody_for_a_minute(lead_time_s: float) -> None:
    behind = planning(STEADY, requested=8, pause_s=60.0, lead_time_s=lead_time_s)

    assert sized(behind).workers > 10


def test_it_explains_itself() -> None:
    numbers = sized(planning(daily(3.0))).numbers

    assert {
        "demand_per_s", "rate_at_lead_p50", "rate_at_lead_p95", "price", "late_share_week", "cost",
        "late_share", "cost_one_fewer", "late_share_one_fewer", "cost_one_more", "late_share_one_more",
        "cost_as_it_is", "late_share_least", "traffic_factor_one_more",
    } <= numbers.keys()  # fmt: skip
    assert numbers["workers_one_fewer"] < numbers["workers"] < numbers["workers_one_more"]
    assert numbers["cost"] <= min(numbers["cost_one_fewer"], numbers["cost_one_more"])
    assert numbers["late_share_one_fewer"] >= numbers["late_share"] >= numbers["late_share_one_more"]


def test_the_target_can_be_given_in_the_place_of_the_slos() -> None:
    loose = sized(planning(daily(3.0, noise=0.2)), late_share_target=0.05)
    tight = sized(planning(daily(3.0, noise=0.2)), late_share_target=0.0005)

    assert loose.workers < tight.workers


def test_traffic_beyond_the_limit_says_so_and_how_much_will_be_late() -> None:
    beyond = sized(planning(STEADY, limits=Limits(1, 8), requested=8))

    assert beyond.workers == 9
    assert beyond.numbers["late_share"] > 0.05


def test_a_forecast_that_is_far_off_gives_way_until_it_is_good_again() -> None:
    rule, memory = penstock(), PenstockMemory()
    dice = np.random.default_rng(1)
    rates = list(500.0 * np.exp(0.01 * dice.standard_normal(600)))
    planned = []
    for minute in range(700):
        wild = 40 <= minute < 200
        rates.append(500.0 * float(np.exp((0.8 if wild else 0.01) * dice.standard_normal())))
        end_s = NOW_S + 60.0 * minute
        seen = planning(
            np.array(rates), history=history(np.array(rates[:-1]), end_s=end_s), now_s=end_s + 10.0
        )
        sizing, memory = rule.size(seen, memory)
        planned.append("price" in sizing.numbers)

    assert planned[30]
    assert not planned[199]
    assert planned[-1]


def test_without_a_history_it_sizes_from_what_is_seen() -> None:
    sizing = sized(planning(STEADY, history=None), utilisation=0.8)

    assert (sizing.workers, sizing.reason) == (13, Reason.TRAFFIC_RISE)


@pytest.mark.parametrize(
    ("requested", "rate", "wanted"), [(16, 2000.0, 22), (16, 2050.0, 32), (20, 1200.0, 13), (22, 1500.0, 16)]
)
def test_sizes_at_which_whole_partitions_train_nothing_more_are_passed_over(
    requested: int, rate: float, wanted: int
) -> None:
    model = ThroughputModel.guessed(100.0, contention=0.0)
    capacity = LearnedCapacity.of(model, slo_broken=False, workers_max=64, dealt=Dealt(64))

    plan = sized(
        planning(STEADY * rate / 1000.0, requested=requested, capacity=capacity, limits=Limits(1, 64))
    )

    assert plan.workers == wanted


def test_a_speed_that_falls_as_workers_are_added_does_not_break_it() -> None:
    class Retrograde(Capacity):
        def samples_per_s(self, workers: int) -> float:
            return 100.0 * workers * max(1.0 - 0.02 * workers, 0.0)

    plan = sized(planning(STEADY * 3, capacity=Retrograde(100.0)))

    assert 1 <= plan.workers <= 30
    assert plan.numbers["late_share_least"] <= plan.numbers["late_share"], "all 200 would train nothing"


@pytest.mark.parametrize("step_s", [2.0, 300.0, 1800.0])
def test_it_plans_at_any_scale_of_time(step_s: float) -> None:
    rates = 1000 + 300 * np.sin(np.arange(2500) / 50)
    scale = step_s / 60.0
    seen = planning(
        rates, history=history(rates, step_s=step_s), now_s=NOW_S + 10 * scale, lead_time_s=180 * scale,
        slo=Slo(60.0 * scale, 0.01),
    )  # fmt: skip

    sizing = sized(seen, season_s=288 * step_s)

    assert 7 <= sizing.workers <= 14
    assert "price" in sizing.numbers
