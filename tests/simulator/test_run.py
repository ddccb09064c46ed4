"""Runs: the real loop on a simulated world, reproducible, and blind to the future."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from estimator.rules import rule_named
from services.simulator import layout as at
from services.simulator.figures import Figures, delay_quantile, figures_of, reversals
from services.simulator.floor import floor_gpu_hours
from services.simulator.forecasters import Remembered, forecaster_named
from services.simulator.policies import KINDS, choose, every_policy, rule_of
from services.simulator.ports import run_now
from services.simulator.run import Run, policy_for, simulate
from tests.simulator.making import a_course, a_day, a_plant

POLICIES = [choice.label for choice in every_policy()]


@pytest.mark.parametrize("label", POLICIES)
def test_the_same_seed_gives_the_same_run(label: str) -> None:
    plant = a_plant(noise=0.1, startup_s={"median": 60.0, "p90": 200.0}, crashes_per_worker_day=5.0)
    course = a_course(a_day(minutes=160), scored_from_min=60)

    def run(seed: int) -> object:
        rule = rule_of(choose(label), plant, course)
        found = simulate(rule, plant, course, seed=seed, forecaster=forecaster_named("light"))
        return found.asked, found.minutes.tobytes()

    assert run(1) == run(1)


def test_another_seed_gives_another_run() -> None:
    plant, course = a_plant(noise=0.1), a_course(a_day(minutes=300))

    one, other = (simulate(rule_named("hpa"), plant, course, seed=seed) for seed in (1, 2))

    assert one.asked != other.asked


@pytest.mark.parametrize("label", [label for label in POLICIES if not label.startswith("static")])
def test_changing_the_future_does_not_change_decisions_before_it(label: str) -> None:
    turn, plant = 200, a_plant(noise=0.1)
    calm = a_day(minutes=turn + 30)
    storm = calm.copy()
    storm[turn:] *= 3.0
    until_s = turn * 60

    def asked(rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[tuple[int, int]]:
        course = a_course(rates)
        rule = rule_of(choose(label), plant, course)
        run = simulate(rule, plant, course, seed=1, forecaster=Remembered(forecaster_named("light")))
        return [change for change in run.asked if change[0] <= until_s]

    assert asked(calm) == asked(storm)


def test_a_job_without_a_past_is_neither_dearer_nor_later_nor_less_steady_than_a_reactive_one() -> None:
    plant, course = a_plant(startup_s=180.0, noise=0.05), a_course(a_day(minutes=360))

    def ran(label: str) -> Figures:
        rule = rule_of(choose(label), plant, course)
        return figures_of(simulate(rule, plant, course, seed=1, forecaster=forecaster_named("light")), plant)

    ours, theirs = ran("penstock"), ran("reactive")

    assert ours.late_share <= 0.01
    assert ours.gpu_hours < 0.9 * theirs.gpu_hours
    assert ours.resizes < theirs.resizes


def test_scoring_starts_after_the_warm_up_with_the_size_in_force() -> None:
    rates = np.concatenate([np.full(30, 100.0), np.full(30, 700.0)])
    plant, course = a_plant(), a_course(rates, scored_from_min=45)

    run = simulate(rule_named("reactive"), plant, course, seed=1)

    assert len(run.minutes) == 15 + 1
    assert run.asked[0][0] == 0
    assert run.asked[0][1] >= 7
    assert run.minutes[:, at.M_ARRIVED].sum() == pytest.approx(15 * 60 * 700.0)


def test_a_world_begins_at_eighty_percent_without_backlog() -> None:
    run = simulate(rule_named("static-max", {"workers": 5}), a_plant(), a_course(np.full(10, 400.0)), seed=1)

    assert run.asked == ((0, 5),)
    assert run.minutes[:, at.M_LAG_AREA].sum() == 0.0


def test_figures_of_a_run_that_keeps_up() -> None:
    plant = a_plant(gpus_per_worker=2.0)
    run = simulate(rule_named("static-max", {"workers": 5}), plant, a_course(np.full(120, 400.0)), seed=1)

    figures = figures_of(run, plant)

    assert figures.late_share == figures.over_slo_share == figures.p99_delay_s == 0.0
    assert figures.gpu_hours == pytest.approx(5 * 2.0 * 2)
    assert figures.gpu_utilisation == pytest.approx(0.8)
    assert (figures.resizes, figures.reversals, figures.downtime_s) == (0, 0, 0.0)


def test_backlog_left_at_the_end_is_drained_charged_and_late() -> None:
    plant = a_plant(slo_s=30.0, workers_max=1)
    run = simulate(rule_named("static-max", {"workers": 1}), plant, a_course(np.full(10, 200.0)), seed=1)

    figures = figures_of(run, plant)

    assert figures.gpu_hours == pytest.approx(2 * 600 / 3600, rel=0.02)
    assert figures.late_share > 0.9
    assert run.minutes[:, at.M_TRAINED].sum() == pytest.approx(120_000)


def test_constant_zero_traffic_is_no_division_by_zero() -> None:
    plant = a_plant()
    for label in POLICIES:
        course = a_course(np.zeros(60))
        run = simulate(rule_of(choose(label), plant, course), plant, course, seed=1)
        figures = figures_of(run, plant)
        assert figures.late_share == 0.0
        assert figures.gpu_hours > 0


def test_traffic_beyond_every_worker_is_late_for_everybody() -> None:
    plant = a_plant(workers_max=4, slo_s=30.0)
    course = a_course(np.full(60, 800.0))
    for label in ("reactive", "hpa", "static-max"):
        run = simulate(rule_of(choose(label), plant, course), plant, course, seed=1)
        assert figures_of(run, plant).late_share > 0.9
        assert max(workers for _, workers in run.asked) <= 4


def test_intervals_come_from_whole_days() -> None:
    plant = a_plant(slo_s=20.0)
    days = np.concatenate([np.full(1440, 300.0), np.full(1440, 900.0)])
    run = simulate(rule_named("static-mean", {"workers": 6}), plant, a_course(days), seed=1)

    figures = figures_of(run, plant)
    low, high = figures.late_share_interval

    assert low < figures.late_share <= high


@pytest.mark.parametrize("label", ["hpa", "keda", "flink"])
@pytest.mark.parametrize("shuffle", ["leases", "eager"])
def test_a_rule_that_reads_nothing_learned_decides_the_same_where_nothing_is_learned(
    label: str, shuffle: str
) -> None:
    plant, course = a_plant(shuffle=shuffle, pause_s=5.0, noise=0.05), a_course(a_day(minutes=240))
    rule = rule_of(choose(label), plant, course)
    taught = replace(rule, reads_learned=True, reads_busy=True)
    assert not policy_for(rule, plant).learns
    assert policy_for(taught, plant).learns

    one, other = (simulate(chosen, plant, course, seed=1) for chosen in (rule, taught))

    assert one.asked == other.asked
    assert len(one.asked) > 1 or label == "flink"
    np.testing.assert_array_equal(one.minutes, other.minutes)


def test_standbys_that_follow_a_forecast_need_what_is_learned() -> None:
    plant = a_plant(standbys="auto")

    assert policy_for(rule_named("hpa"), plant).learns


def test_a_pool_for_the_peak_starts_without_the_backlog_of_the_warm_up() -> None:
    rates = np.concatenate([np.full(120, 900.0), np.full(120, 300.0)])
    plant, course = a_plant(), a_course(rates, scored_from_min=120)

    run = simulate(rule_of(choose("static-max"), plant, course), plant, course, seed=1)

    assert figures_of(run, plant).late_share == 0.0


def test_the_floor_is_the_fewest_whole_workers_of_each_minute() -> None:
    course = a_course(np.array([50.0, 150.0, 1000.0, 0.0]))

    assert floor_gpu_hours(a_plant(), course.scored) == pytest.approx((1 + 2 + 10 + 1) / 60)


def test_quantiles_of_delay() -> None:
    delays = np.zeros(at.DELAY_BINS)
    delays[0], delays[10], delays[at.FINE_BINS + 2] = 50, 49, 1

    assert delay_quantile(delays, 0.5) == 0
    assert delay_quantile(delays, 0.99) == 10
    assert delay_quantile(delays, 1.0) == at.FINE_BINS + 120


def test_a_reversal_is_a_turn_within_one_start_up() -> None:
    assert reversals(((0, 4), (60, 8), (100, 5), (400, 9)), within_s=180.0) == 1


def test_every_policy_has_a_sweep_that_it_understands() -> None:
    plant, course = a_plant(), a_course(a_day(minutes=60))
    for name in KINDS:
        for turned in choose(name).sweep:
            assert rule_of(turned, plant, course).name == KINDS[name].rule


def test_a_port_that_waits_is_a_mistake() -> None:
    import asyncio

    with pytest.raises(RuntimeError, match="waited"):
        run_now(asyncio.sleep(0))


def test_standbys_meet_a_jump_cost_their_hours_and_are_told_apart() -> None:
    """Four of eight stand by; they train in the tick that sees the jump, a start-up before cold ones."""
    rates = np.concatenate([np.full(30, 350.0), np.full(30, 750.0)])

    def run(standbys: int) -> Run:
        plant = a_plant(startup_s=300.0, standbys=standbys, slo_s=60.0)
        return simulate(rule_named("reactive", {"utilisation": 0.9}), plant, a_course(rates), seed=1)

    cold, warm = run(0), run(4)

    def share_late(run: Run) -> float:
        return float(run.minutes[:, at.M_LATE].sum() / run.minutes[:, at.M_TRAINED].sum())

    assert share_late(warm) < share_late(cold) / 10
    calm = slice(10, 29)
    assert warm.minutes[calm, at.M_READY].sum() == cold.minutes[calm, at.M_READY].sum()
    assert warm.minutes[calm, at.M_HELD].sum() == 2 * cold.minutes[calm, at.M_HELD].sum()
    assert (cold.stood_by, warm.stood_by[0][1]) == ((), 4)


def test_a_standby_that_crashes_is_replaced() -> None:
    plant = a_plant(standbys=3, crashes_per_worker_day=100.0)

    found = simulate(rule_named("reactive"), plant, a_course(np.full(240, 350.0)), seed=2)

    assert found.failures > 20
    assert found.minutes[-2, at.M_HELD] > found.minutes[-2, at.M_READY]
