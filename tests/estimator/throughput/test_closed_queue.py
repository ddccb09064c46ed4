"""Mean value analysis of the closed queue, against exact results and against events."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.parameter_server import ParameterServer, measure
from estimator.throughput.closed_queue import ClosedQueue, at, queue_through, solve
from services.simulator.families import true_curve
from services.simulator.plant import Plant

times = st.floats(1e-6, 1e3)


def test_with_exponential_service_it_is_the_exact_recursion() -> None:
    plant = Plant(family="queueing", contention=0.08)
    queue = ClosedQueue(own_s=0.92 / plant.rate_per_worker, demand_s=0.08 / plant.rate_per_worker)

    assert solve(queue, 32) == pytest.approx(true_curve(plant, 32).tolist())


@pytest.mark.parametrize(("cv2", "tolerance"), [(1.0, 0.03), (0.3, 0.03), (0.0, 0.02)])
def test_the_measured_variability_of_service_predicts_the_knee(cv2: float, tolerance: float) -> None:
    server = ParameterServer(shards=(0.005,), service_cv2=cv2)
    predicted = solve(ClosedQueue(0.05, 0.005, cv2), 16)

    for workers in (8, 11, 16):
        seen = measure(server, workers, steps=4000, seed=1).steps_per_s
        assert predicted[workers] == pytest.approx(seen, rel=tolerance), workers


def test_taking_regular_service_for_exponential_would_err_at_the_knee() -> None:
    seen = measure(ParameterServer(shards=(0.005,), service_cv2=0.0), 11, steps=4000).steps_per_s

    assert solve(ClosedQueue(0.05, 0.005), 11)[11] < 0.95 * seen


@given(own_s=times, demand_s=times, cv2=st.floats(0, 5))
def test_it_never_exceeds_the_ceiling_nor_workers_that_meet_nobody(
    own_s: float, demand_s: float, cv2: float
) -> None:
    queue = ClosedQueue(own_s, demand_s, cv2)

    for workers, rate in enumerate(solve(queue, 40)):
        assert 0 <= rate <= queue.ceiling_per_s
        assert rate <= workers / (own_s + demand_s) * (1 + 1e-9)


@given(own_s=times, demand_s=times)
def test_more_workers_never_train_less_in_an_exponential_queue(own_s: float, demand_s: float) -> None:
    curve = solve(ClosedQueue(own_s, demand_s), 40)

    assert all(after >= before * (1 - 1e-9) for before, after in pairwise(curve))


@given(own_s=st.floats(1e-3, 10), demand_s=st.floats(1e-4, 1), busy=st.floats(1, 30))
def test_the_queue_passes_through_the_cycle_that_was_measured(
    own_s: float, demand_s: float, busy: float
) -> None:
    truth = solve(ClosedQueue(own_s, demand_s, 0.5), int(busy) + 1)
    cycle_s = busy / at(truth, busy)

    found = queue_through(cycle_s=cycle_s, busy=busy, demand_s=demand_s, service_cv2=0.5)

    again = solve(found, int(busy) + 1)
    assert busy / at(again, busy) == pytest.approx(cycle_s, rel=1e-3)
