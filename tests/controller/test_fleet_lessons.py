"""What running jobs teach: the prior of their group, and what a worker should be made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from estimator.fleet.worker_shape import Advice
from estimator.throughput import GpuTypes, Guess, StepTimes, ThroughputWindow
from forecasting.history import TrafficHistory
from services.control.decide import decide
from services.control.learned import Throughput
from services.control.loop import Tick
from services.control.types import ControlState, Decision, GpuLoad, Observation, WorkerReport
from services.controller.fleet_desk import FleetDesk
from services.controller.fleet_lessons import record_of, worker_advice
from services.controller.journal import JobStatus
from services.settings import JobSettings
from services.settings.fleet import FleetSettings, JobFleetSettings
from tests.control.worlds import a_policy, a_pool, an_observation

DAY = TrafficHistory(start_s=0.0, step_s=3600.0, rates=np.where(np.arange(24) < 12, 50.0, 150.0))


def learned(rate: float, *, workers: tuple[int, ...] = (1, 2, 4)) -> Decision:
    """A decision of a job whose lone worker was seen to train so much."""
    guess, types = Guess(10.0), GpuTypes()
    for minute in range(30):
        count = workers[minute * len(workers) // 30]
        window = ThroughputWindow(
            60.0 * (minute + 1), count, rate * count, busy=float(count), gpu_type="a100"
        )
        types = types.seen(window, guess)
    decision = decide(an_observation(pool=a_pool(2)), ControlState(planned=2), a_policy())
    return replace(decision, state=replace(decision.state, throughput=Throughput(types, "a100", guess=guess)))


def status(job: str, rate: float) -> JobStatus:
    decision, seen = learned(rate), replace(an_observation(), history=DAY)
    return JobStatus(job, Tick(job, 1000.0, seen, decision), decision, seen)


def reporting(steps: StepTimes, gpu: GpuLoad | None = None) -> Observation:
    report = WorkerReport(
        "w-0", at_s=1.0, trained=1, busy=1.0, rate_per_busy_s=1000.0, batch=100, steps=steps, gpu=gpu
    )
    return an_observation(reports=(report,))


def advised(seen: Observation, *, share: float = 1.0, cores: int = 2) -> tuple[Advice, float, int] | None:
    shape = worker_advice(seen, gpu_share=share, cores=cores, gpu_price=3.0, core_price=0.05, cores_max=16)
    return None if shape is None else (shape.advice, shape.gpu_share, shape.cores)


def test_a_job_that_runs_is_a_record_of_its_group() -> None:
    record = record_of("ctr", learned(200.0), DAY)

    assert record is not None
    assert record.gpu_type == "a100"
    assert record.batch / (record.own_s + record.shared_s) == pytest.approx(200.0, rel=0.1)
    assert record.hourly[0] == 50.0
    assert record.hourly[23] == 150.0


def test_a_job_that_has_not_trained_teaches_nothing() -> None:
    decision = decide(an_observation(pool=a_pool(2)), ControlState(planned=2), a_policy())

    assert record_of("ctr", decision, DAY) is None


def test_a_new_job_of_a_group_starts_from_what_the_others_were_like() -> None:
    jobs = {
        name: JobSettings(topic=name, fleet=JobFleetSettings(group=group))
        for name, group in (("clicks", "ctr"), ("views", "other"), ("new", "ctr"))
    }
    told = {
        "clicks": status("clicks", 200.0),
        "views": status("views", 900.0),
    }
    desk = FleetDesk(FleetSettings(), interval_s=5.0, status=told.get)

    prior = desk.prior("ctr", "a100", jobs)

    assert prior is not None
    assert prior.jobs == 1
    assert prior.capacity.rate_per_worker == pytest.approx(200.0, rel=0.1)
    assert prior.from_hour(12)[0] == pytest.approx(1.5)
    assert desk.prior("", "a100", jobs) is None
    assert desk.prior("nobody", "a100", jobs) is None


def test_a_gpu_that_waits_for_input_is_said_to_need_cores_before_gpus() -> None:
    assert advised(reporting(StepTimes(input_s=0.2, compute_s=0.1, wait_s=0.0))) == (Advice.ADD_CORES, 1.0, 4)


def test_a_worker_that_is_right_is_left_alone_and_cores_that_wait_are_given_back() -> None:
    assert advised(reporting(StepTimes(0.1, 0.1, 0.0))) == (Advice.RIGHT, 1.0, 2)
    assert advised(reporting(StepTimes(0.05, 0.1, 0.0))) == (Advice.FEWER_CORES, 1.0, 1)


def test_a_step_that_nvml_sees_fill_a_fifth_of_the_gpu_is_advised_a_quarter() -> None:
    seen = reporting(StepTimes(0.05, 0.1, 0.0), GpuLoad(busy=0.2, memory_bytes=1))

    assert advised(seen) == (Advice.SMALLER_GPU, 0.25, 1)


def test_workers_that_do_not_tell_get_no_advice() -> None:
    assert advised(an_observation()) is None
    assert advised(reporting(StepTimes(0.1, 0.1, 0.0)), share=2.0) is None
