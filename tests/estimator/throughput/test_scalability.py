"""The universal scalability law by most probable parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from estimator.throughput.scalability import LawPrior, SpeedPoint, fit, log_speed, log_speeds

PRIOR = LawPrior(rate=900.0, contention=0.02)


def law(n: float, *, rate: float = 1000.0, contention: float = 0.05, coherency: float = 5e-4) -> float:
    return math.log(rate / (1 + contention * (n - 1) + coherency * n * (n - 1)))


def saturated(sizes: tuple[int, ...], **parameters: float) -> list[SpeedPoint]:
    return [SpeedPoint(float(n), float(n), law(n, **parameters), 0.01) for n in sizes]


def test_it_finds_the_law_that_made_the_points() -> None:
    laws = fit(saturated((1, 2, 4, 8, 16, 32)), PRIOR)

    for n in (3, 12, 32, 48):
        assert log_speed(laws, n, n) == pytest.approx(law(n), abs=0.02), n


def test_one_size_alone_keeps_the_contention_expected() -> None:
    laws = fit([SpeedPoint(8.0, 8.0, math.log(700.0), 0.02)], PRIOR)

    expected = (1 + 0.02 * 7) / (1 + 0.02 * 11)
    assert math.exp(log_speed(laws, 12, 12)) == pytest.approx(700.0 * expected, rel=0.03)


def test_a_single_wild_point_does_not_bend_the_law() -> None:
    points = saturated((1, 2, 4, 6, 8, 12, 16))
    wild = [*points[:-1], SpeedPoint(16.0, 16.0, points[-1].log_speed + 1.0, 0.01)]

    assert log_speed(fit(wild, PRIOR), 16, 16) == pytest.approx(law(16), abs=0.15)


@pytest.mark.parametrize(("idle_share", "slowed_by"), [(0.0, "load"), (1.0, "members")])
def test_windows_at_several_loads_tell_who_stands_in_the_way(idle_share: float, slowed_by: str) -> None:
    points = [
        SpeedPoint(float(n), n * load, law(n if slowed_by == "members" else max(n * load, 1.0)), 0.015)
        for n in (4, 8, 16)
        for load in (0.3, 0.6, 0.9)
    ]
    laws = fit(points, PRIOR)

    assert max(laws, key=lambda one: one.weight).idle_share == idle_share
    assert log_speed(laws, 16, 16) == pytest.approx(law(16), abs=0.03)


def test_where_one_window_cannot_tell_the_law_that_promises_less_counts() -> None:
    point = SpeedPoint(16.0, 8.0, law(8.0), 0.02)
    laws = fit([point], PRIOR)

    assert {one.idle_share: one.weight for one in laws}[0.0] > 0.9


@settings(max_examples=25, deadline=None)
@given(
    contention=st.floats(1e-3, 0.2),
    coherency=st.floats(1e-6, 2e-3),
    seed=st.integers(0, 1000),
    count=st.integers(1, 20),
)
@example(contention=0.125, coherency=0.0017769978572888222, seed=148, count=7)
@example(contention=0.1777355458111768, coherency=5.56675051932311e-06, seed=125, count=3)
def test_the_steps_end_where_a_general_minimiser_ends(
    contention: float, coherency: float, seed: int, count: int
) -> None:
    draw = np.random.default_rng(seed)
    sizes = draw.uniform(1, 32, count)
    y = np.array([law(n, contention=contention, coherency=coherency) for n in sizes])
    y += 0.02 * draw.standard_normal(count)
    points = [SpeedPoint(n, n, one, 0.03) for n, one in zip(sizes.tolist(), y.tolist(), strict=True)]

    def cost(theta: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        crowding = 1 + math.exp(theta[1]) * (sizes - 1) + math.exp(theta[2]) * sizes * (sizes - 1)
        off = (y - theta[0] + np.log(crowding)) / 0.03
        prior = PRIOR.precisions * (theta - PRIOR.means) ** 2
        return float(np.sum(np.sqrt(1 + off**2) - 1) + np.sum(prior) / 2)

    found = fit(points, PRIOR)[0]
    theta = np.array([found.log_rate, found.log_contention, found.log_coherency])
    best = minimize(cost, [y.max(), *PRIOR.means[1:]], method="BFGS")

    assert cost(theta) <= best.fun + 0.01


@given(st.floats(1, 60), st.floats(0.1, 1))
def test_many_at_once_are_as_one_by_one(workers: float, load: float) -> None:
    laws = fit(saturated((1, 4, 9)), PRIOR)
    busy = workers * load

    together = log_speeds(laws, np.array([workers]), np.array([busy]))

    assert together[0] == pytest.approx(log_speed(laws, workers, busy))
