"""What a worker is made of, and what its group was like."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.fleet import InvalidFleet
from estimator.fleet.group_history import JobRecord, prior_of
from estimator.fleet.worker_shape import Advice, WorkerTimes, shaped


def test_a_gpu_that_waits_for_input_gets_cores_before_gpus() -> None:
    times = WorkerTimes(input_core_s=0.4, compute_s=0.1, batch=100)
    shape = shaped(times, gpu_price=3.0, core_price=0.05, cores_max=16, now=(1.0, 2))

    assert shape.advice is Advice.ADD_CORES
    assert times.input_s(shape.cores) <= times.gpu_s(shape.gpu_share)


def test_a_step_that_fills_a_quarter_of_a_gpu_gets_a_quarter() -> None:
    times = WorkerTimes(input_core_s=0.1, compute_s=0.1, gpu_busy=0.2)
    shape = shaped(times, gpu_price=3.0, core_price=0.05, cores_max=8, now=(1.0, 1))

    assert (shape.gpu_share, shape.cores) == (0.25, 1)
    assert shape.advice is Advice.SMALLER_GPU


def test_cores_that_only_wait_are_given_back() -> None:
    times = WorkerTimes(input_core_s=0.1, compute_s=0.1)
    shape = shaped(times, gpu_price=3.0, core_price=1.0, cores_max=8, now=(1.0, 6))

    assert shape.advice in {Advice.FEWER_CORES, Advice.SMALLER_GPU}
    assert shape.cores < 6


def test_input_that_no_number_of_cores_feeds_is_said_to_bind() -> None:
    times = WorkerTimes(input_core_s=10.0, compute_s=0.01)
    shape = shaped(times, gpu_price=3.0, core_price=0.05, cores_max=4)

    assert shape.advice is Advice.INPUT_BOUND
    assert shape.cores == 4


@settings(max_examples=60, deadline=None)
@given(st.floats(0.001, 1), st.floats(0.001, 1), st.floats(0.05, 1), st.floats(0.1, 10), st.floats(0.001, 1))
def test_no_shape_that_is_fed_is_cheaper(
    input_s: float, compute_s: float, busy: float, gpu: float, core: float
) -> None:
    times = WorkerTimes(input_s, compute_s, gpu_busy=busy)
    best = shaped(times, gpu_price=gpu, core_price=core, cores_max=6)
    for share in (0.25, 0.5, 1.0):
        for cores in range(1, 7):
            if times.input_s(cores) <= times.gpu_s(share):
                cost = (share * gpu + cores * core) * times.gpu_s(share) / 3600
                assert best.cost_per_sample <= cost * (1 + 1e-9)


@pytest.mark.parametrize("times", [(0.1, 0.0), (float("nan"), 0.1), (-1.0, 0.1)])
def test_times_that_are_none_are_refused(times: tuple[float, float]) -> None:
    with pytest.raises(InvalidFleet):
        WorkerTimes(*times)


def record(own_s: float, *, group: str = "ads/ctr", kind: str = "t4", seen_s: float = 1.0) -> JobRecord:
    hourly = tuple(10.0 if 8 <= hour < 20 else 5.0 for hour in range(24))
    return JobRecord(group, kind, own_s, 0.01, 100, hourly, seen_s)


def test_a_new_job_starts_from_what_its_group_was_like() -> None:
    prior = prior_of("ads/ctr", "t4", [record(0.1), record(0.4), record(9.0, group="other")])

    assert prior is not None
    assert prior.own_s == pytest.approx(0.2)
    assert prior.capacity.samples_per_s(1) == pytest.approx(100 / 0.21)
    assert prior.daily[12] == pytest.approx(4 / 3)
    assert sum(prior.daily) == pytest.approx(24.0)
    assert prior.jobs == 2
    assert prior.spread > 0.5


def test_the_ceiling_of_a_prior_is_what_is_shared() -> None:
    prior = prior_of("ads/ctr", "t4", [record(0.1)])

    assert prior is not None
    assert prior.capacity.samples_per_s(100_000) == pytest.approx(100 / 0.01, rel=0.01)


def test_records_of_the_same_type_count_before_those_of_others() -> None:
    records = [record(0.1), record(0.5, kind="a100")]

    mine, borrowed = prior_of("ads/ctr", "a100", records), prior_of("ads/ctr", "h100", records)

    assert mine is not None
    assert mine.own_s == pytest.approx(0.5)
    assert borrowed is not None
    assert borrowed.jobs == 2


def test_a_job_of_no_group_learns_from_nobody() -> None:
    assert prior_of("", "t4", [record(0.1, group="")]) is None
    assert prior_of("new", "t4", [record(0.1)]) is None
