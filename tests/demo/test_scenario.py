"""The demo's scenario: valid settings, one series for past and future, a generator that can go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estimator.rules import RULES, rule_named
from services.demo.scenario import CROWD_AFTER_S, HISTORY_DAYS, JOB, START_S, Scenario

PLACES: dict[str, Any] = {
    "kafka": "localhost:1",
    "redis": "redis://localhost:1",
    "prefix": "demo",
    "topic": "clicks",
    "run_dir": Path("run"),
}


def test_the_settings_are_valid_and_in_wall_time() -> None:
    settings = Scenario().settings(**PLACES)

    job = settings.jobs[JOB]
    assert job.forecast.season_s == pytest.approx(600.0)
    assert job.scaling.rate_per_worker == pytest.approx(500.0)


@pytest.mark.parametrize("speed_up", [1.0, 60.0, 144.0])
def test_forecasts_scale_with_the_speed_up(speed_up: float) -> None:
    forecast = Scenario(speed_up=speed_up).settings(**PLACES).jobs[JOB].forecast

    assert forecast.step_s * speed_up == pytest.approx(300.0)
    assert forecast.horizon_s * speed_up == pytest.approx(4500.0)
    assert forecast.season_s * speed_up == pytest.approx(86_400.0)
    assert forecast.model == "patchtst"


def test_two_weeks_are_known_before_the_first_tick() -> None:
    past = Scenario().history(until_s=1_000_000.0)

    assert past.span_s == pytest.approx(14 * 600.0)
    assert past.known == 14 * 288


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_gets_options_that_it_knows(rule: str) -> None:
    settings = Scenario(rule=rule).settings(**PLACES)

    assert settings.jobs[JOB].scaling.rule == rule
    assert settings.jobs[JOB].policy(stale_after_s=10.0).rule.name == rule


@pytest.mark.parametrize("rule", sorted(RULES.keys() - {"penstock", "static-max", "static-mean"}))
def test_the_times_of_a_rule_run_at_the_speed_of_the_demo(rule: str) -> None:
    job = Scenario(rule=rule).settings(**PLACES).jobs[JOB]
    in_life, played = rule_named(rule).period_s, job.policy(stale_after_s=10.0).rule

    assert Scenario(rule=rule).rule_options["speed_up"] == 144.0
    assert played.period_s == (None if in_life is None else pytest.approx(in_life / 144.0))


def test_a_fixed_pool_is_sized_from_the_traffic_to_come() -> None:
    peak = Scenario(rule="static-max").workers_known_beforehand
    mean = Scenario(rule="static-mean").workers_known_beforehand
    rates = Scenario().shape.rates(START_S + np.arange(0.0, 86_400.0, 60.0))

    assert rates.max() <= 0.8 * 500.0 * peak
    assert 500.0 * (mean - 1) < rates.mean() <= 500.0 * mean < 500.0 * peak


def last_bin(scenario: Scenario, until_s: float) -> float:
    """The mean rate of the five simulated minutes before."""
    return float(scenario.shape.rates(np.arange(until_s - 300.0, until_s)).mean())


def counting_noise(scenario: Scenario) -> float:
    """The deviation of a bin's rate: a bin has so many samples, give or take their root."""
    return float(np.sqrt(scenario.mean_per_s / scenario.step_s))


def test_the_past_is_the_same_series_as_the_traffic_to_come() -> None:
    scenario = Scenario()

    past = scenario.history(until_s=1_000_000.0)

    assert past.end_s == pytest.approx(1_000_000.0)
    assert past.step_s == pytest.approx(scenario.step_s)
    assert past.rates[-1] == pytest.approx(last_bin(scenario, START_S), abs=4 * counting_noise(scenario))


def test_the_past_is_as_rough_as_what_the_meter_will_measure() -> None:
    scenario = Scenario()
    rates = scenario.shape.history(until_s=START_S, step_s=300.0, days=HISTORY_DAYS).rates

    past = scenario.history(until_s=1_000_000.0)

    scatter = (past.rates - rates) / np.sqrt(rates / scenario.step_s)
    assert scatter.std() == pytest.approx(1.0, rel=0.05), "whole samples, drawn as the generator draws them"


def test_a_restarted_generator_goes_on_where_the_killed_one_would_be(tmp_path: Path) -> None:
    scenario = Scenario()

    command = scenario.traffic_command(
        kafka="k:1", topic="t", report=tmp_path / "r.json", elapsed_s=CROWD_AFTER_S / scenario.speed_up
    )

    assert float(command[command.index("--start") + 1]) == START_S + CROWD_AFTER_S
    crowd = next(word for word in command if word.startswith("--crowd="))
    assert float(crowd.removeprefix("--crowd=").split(":")[0]) == pytest.approx(0.0)


def test_a_run_up_is_played_before_what_counts(tmp_path: Path) -> None:
    scenario = Scenario(run_up_s=40.0)

    command = scenario.traffic_command(kafka="k:1", topic="t", report=tmp_path / "r.json", elapsed_s=40.0)
    past = scenario.history(until_s=1_000_000.0)

    assert float(command[command.index("--start") + 1]) == START_S
    before = last_bin(scenario, START_S - 40.0 * 144.0)
    assert past.rates[-1] == pytest.approx(before, abs=4 * counting_noise(scenario))
    first = float(scenario.shape.rates(START_S + np.arange(60.0)).mean())
    assert 500.0 * (scenario.workers_at_start - 1) < first / 0.8 <= 500.0 * scenario.workers_at_start


def test_the_crowd_stands_out_and_the_pool_can_carry_the_day() -> None:
    scenario = Scenario()
    day = scenario.shape.rates(START_S + np.arange(0.0, 86_400.0, 60.0))

    assert day.max() > 1.3 * np.median(day)
    assert day.max() < 12 * scenario.rate_per_worker
