"""Rules at another pace: the same story told faster has the same sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.rules import RULES, UnknownRule, rule_named
from estimator.rules.tempo import slowed
from estimator.situation import Situation
from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory
from tests.estimator.seeing import situation

SPEED_UP = 128.0
"""A power of two: nothing is rounded on the way there and back."""


def _hour(rates: list[float]) -> list[Situation]:
    """A tick every 30 s; the rates hold for ten minutes each."""
    story = []
    for tick in range(20 * len(rates)):
        rate, now_s = rates[tick // 20], 30.0 * tick
        paths = np.array([np.full(60, rate), np.full(60, 1.2 * rate)])
        ahead = Forecast(issued_at_s=now_s, step_s=60.0, paths=paths, model="test", levels=(0.5, 0.9))
        past = TrafficHistory(start_s=now_s - 7200.0, step_s=300.0, rates=np.full(24, rates[0]))
        story.append(
            situation(now_s=now_s, rate_per_s=rate, lag=rate * 40, lag_s=40.0, forecast=ahead, history=past)
        )
    return story


def _sizes(name: str, story: list[Situation], **options: float) -> list[int]:
    rule = rule_named(name, options)
    memory, sizes, workers = rule.memory(), [], 4
    for seen in story:
        sizing, memory = rule.size(replace(seen, requested=workers, ready=4), memory)
        workers = min(max(sizing.workers, 1), 64)
        sizes.append(workers)
    return sizes


@pytest.mark.parametrize("name", sorted(RULES.keys() - {"penstock"}))
@settings(max_examples=8, deadline=None)
@given(rates=st.lists(st.floats(50.0, 3000.0), min_size=2, max_size=6))
def test_a_story_told_faster_has_the_same_sizes(name: str, rates: list[float]) -> None:
    told = _hour(rates)
    faster = [slowed(seen, 1 / SPEED_UP) for seen in told]

    options = {"lag_threshold": 4000.0 / SPEED_UP} if name == "keda" else {}
    usual = {"lag_threshold": 4000.0} if name == "keda" else {}
    assert _sizes(name, faster, speed_up=SPEED_UP, **options) == _sizes(name, told, **usual)


def test_its_times_are_told_in_the_time_that_is_played() -> None:
    quiet = situation(now_s=0.0, rate_per_s=100.0, requested=8)
    rule = rule_named("reactive", {"settle_s": 2.0, "speed_up": 60.0})

    held, memory = rule.size(quiet, rule.memory())
    still, memory = rule.size(replace(quiet, now_s=1.9), memory)
    shrunk, _ = rule.size(replace(quiet, now_s=2.1), memory)

    assert (held.workers, still.workers) == (8, 8)
    assert shrunk.workers < 8


def test_what_it_says_is_in_units_of_the_time_that_is_played() -> None:
    seen = situation(lag=5000.0, partition_lags=(5000.0,))

    usual, _ = rule_named("keda", {"lag_threshold": 5000.0}).size(seen, rule_named("keda").memory())
    faster, _ = rule_named("keda", {"lag_threshold": 5000.0, "speed_up": 60.0}).size(
        seen, rule_named("keda").memory()
    )

    assert faster.numbers["lag_metric"] == pytest.approx(usual.numbers["lag_metric"])


@pytest.mark.parametrize("speed_up", [0.0, -1.0, float("nan"), float("inf")])
def test_a_pace_that_is_none_is_refused_with_its_name(speed_up: float) -> None:
    with pytest.raises(UnknownRule, match="speed_up"):
        rule_named("hpa", {"speed_up": speed_up})
