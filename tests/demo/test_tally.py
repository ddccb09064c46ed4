"""The figures of a run add up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from services.control.decide import decide
from services.control.errors import StateUnavailable
from services.control.loop import Tick
from services.control.training_quality import TrainingQuality
from services.control.types import ControlState, Observation, WorkerReport
from services.demo.tally import Tally
from tests.control.worlds import a_policy, a_pool, an_observation

BUSY = (WorkerReport("w-0", at_s=0.0, trained=1, busy=0.5, rate_per_busy_s=100.0),)


@pytest.fixture
def tally() -> Tally:
    return Tally(gpus_per_worker=2.0, rate_per_worker=100.0)


def told(tally: Tally, *observations: Observation) -> None:
    for seen in observations:
        decision = decide(seen, ControlState(planned=seen.pool.requested), a_policy())
        tally.told(Tick("clicks", seen.at_s, seen, decision))


def test_gpu_hours_count_every_worker_held_in_gpus(tally: Tally) -> None:
    starting = an_observation(at_s=0, pool=a_pool(3, ready=1), reports=BUSY)
    told(tally, starting, replace(starting, at_s=3600))

    assert tally.gpu_hours == pytest.approx(3 * 2.0)
    assert tally.utilisation(trained=540_000) == pytest.approx(0.5)


def test_lag_adds_up_over_time_and_its_worst_is_kept(tally: Tally) -> None:
    told(
        tally,
        an_observation(at_s=0, lag=0, reports=BUSY),
        an_observation(at_s=10, lag=500, reports=BUSY),
        an_observation(at_s=20, lag=100, reports=BUSY),
    )

    assert tally.accumulated_lag == 500 * 10 + 100 * 10
    assert tally.worst_lag_s == 5.0


def test_time_without_training_counts_only_while_samples_wait(tally: Tally) -> None:
    told(
        tally,
        an_observation(at_s=0, lag=10, reports=BUSY),
        an_observation(at_s=1, lag=10),  # nobody is busy though samples wait
        an_observation(at_s=2, lag=0),  # nobody is busy because nothing waits
    )

    assert tally.downtime_s == 1.0


def test_resizes_are_counted_by_direction(tally: Tally) -> None:
    told(tally, an_observation(at_s=0, rate=450), an_observation(at_s=1, rate=450, pool=a_pool(5)))

    assert (tally.resizes, tally.grown, tally.shrunk) == (1, 1, 0)
    assert (tally.workers_min, tally.workers_max) == (1, 5)


def test_a_held_tick_is_counted_and_changes_nothing_else(tally: Tally) -> None:
    tally.told(Tick("clicks", 5.0, error=StateUnavailable("away")))

    assert tally.held_ticks == 1
    assert tally.resizes == 0


def test_the_latest_word_on_the_model_is_kept_when_workers_fall_silent(tally: Tally) -> None:
    learned = replace(BUSY[0], quality=TrainingQuality(100, 0.75, 0.5, 3.0))
    told(tally, an_observation(at_s=0, reports=(learned,)), an_observation(at_s=1, reports=BUSY))

    assert tally.quality == learned.quality
