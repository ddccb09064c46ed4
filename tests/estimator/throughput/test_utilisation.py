"""The utilisation law: what a sample costs a shared resource."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.throughput import ResourceLoad
from estimator.throughput.utilisation import Utilisation


def seen(pairs: list[tuple[float, float]]) -> Utilisation:
    line = Utilisation("ps-0")
    for rate, busy in pairs:
        line = line.seen(ResourceLoad("ps-0", busy), samples_per_s=rate)
    return line


def test_one_window_at_any_load_gives_a_first_value() -> None:
    assert seen([(1000.0, 0.2)]).demand_s == pytest.approx(2e-4)
    assert seen([(50.0, 0.01)]).demand_s == pytest.approx(2e-4)


def test_loads_that_differ_tell_work_for_others_from_ours() -> None:
    line = seen([(rate, 0.2 + 2e-4 * rate) for rate in (500.0, 1000.0, 1500.0, 2000.0, 2500.0)] * 10)
    background, slope = line.line()

    assert background == pytest.approx(0.2, rel=0.05)
    assert slope == pytest.approx(2e-4, rel=0.05)
    # What is left for us is 80 % of the resource, so it is full at 0.8 / slope.
    assert 1 / line.demand_s == pytest.approx(0.8 / 2e-4, rel=0.05)


def test_one_load_takes_all_for_ours_which_is_the_safe_side() -> None:
    line = seen([(1000.0, 0.4)] * 50)

    assert line.line()[0] == pytest.approx(0.0, abs=1e-9)
    assert line.demand_s == pytest.approx(4e-4)


def test_noise_does_not_pass_for_background_work() -> None:
    draw = np.random.default_rng(3)
    rates = draw.uniform(950, 1050, 100)
    line = seen([(rate, 2e-4 * rate * (1 + 0.02 * draw.standard_normal())) for rate in rates])

    assert line.demand_s == pytest.approx(2e-4, rel=0.1)


@given(st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(0, 1)), min_size=1, max_size=40))
def test_demand_is_never_negative_and_always_a_number(pairs: list[tuple[float, float]]) -> None:
    background, slope = seen(pairs).line()

    assert 0 <= background < 1
    assert 0 <= slope < float("inf")
