"""Laws that every sizing rule obeys."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from estimator.rules import RULES, UnknownRule, rule_named
from estimator.situation import Limits
from forecasting.forecast import Forecast
from tests.estimator.planner.histories import history as past
from tests.estimator.seeing import situation


@pytest.mark.parametrize("name", sorted(RULES))
def test_its_memory_survives_being_stored(name: str) -> None:
    rule = rule_named(name)
    _, memory = rule.size(situation(), rule.memory())
    adapter: TypeAdapter[object] = TypeAdapter(rule.memory)

    restored = adapter.validate_json(adapter.dump_json(memory))

    assert restored == memory


@pytest.mark.parametrize("name", sorted(RULES))
@settings(max_examples=25, deadline=None)
@given(
    rates=st.lists(st.floats(0, 1e5), min_size=1, max_size=12),
    busy=st.one_of(st.none(), st.floats(0, 1)),
    lag=st.floats(0, 1e8),
    ready=st.integers(0, 8),
)
def test_it_answers_with_a_sane_number_whatever_it_sees(
    name: str, rates: list[float], busy: float | None, lag: float, ready: int
) -> None:
    rule = rule_named(name)
    memory, workers = rule.memory(), 4
    for tick, rate in enumerate(rates):
        now_s = 300.0 * tick
        paths = np.full((2, 60), rate)
        forecast = Forecast(issued_at_s=now_s, step_s=60.0, paths=paths, model="test", levels=(0.5, 0.9))
        seen = situation(
            now_s=now_s, rate_per_s=rate, lag=lag, requested=workers, ready=min(ready, workers), busy=busy,
            forecast=forecast, limits=Limits(0, 64),
        )  # fmt: skip
        sizing, memory = rule.size(seen, memory)
        assert sizing.workers >= 0
        assert all(np.isfinite(value) for value in sizing.numbers.values())
        workers = min(sizing.workers, 64)


@pytest.mark.parametrize("name", sorted(RULES))
@pytest.mark.parametrize("value", [0.0, -1.0, 1e-9, 1e12, math.nan, math.inf])
def test_an_option_is_refused_or_breaks_no_tick(name: str, value: float) -> None:
    for option in inspect.signature(RULES[name]).parameters:
        try:
            rule = rule_named(name, {option: value})
        except UnknownRule:
            continue
        for history in (None, past(np.full(1440, 100.0))):
            sizing, _ = rule.size(situation(history=history), rule.memory())
            assert all(np.isfinite(number) for number in sizing.numbers.values()), option


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_no_option_takes_a_number_that_is_none(value: float) -> None:
    for name, rule in RULES.items():
        for option in inspect.signature(rule).parameters:
            with pytest.raises(UnknownRule, match=option):
                rule_named(name, {option: value})
