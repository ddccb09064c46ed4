"""What the planner notes of a tick: which lateness counts against the error budget."""

from __future__ import annotations

from typing import Any

import numpy as np

from estimator.capacity import Capacity
from estimator.planner.memory import PlannerMemory, noted
from estimator.situation import Limits
from tests.estimator.planner.histories import NOW_S, planning

DAY_S = 86_400.0
MOST = 8
"""Workers that there may be, of 100 samples/s each."""


def _after(*readings: tuple[float, float]) -> PlannerMemory:
    """The memory after ticks of ten seconds with these (rate, age of the oldest sample)."""
    memory = PlannerMemory()
    for tick, (rate_per_s, lag_s) in enumerate(readings):
        seen: dict[str, Any] = {"rate_per_s": rate_per_s, "lag_s": lag_s, "now_s": NOW_S + 10.0 * tick}
        memory = noted(planning(np.full(10, 100.0), limits=Limits(1, MOST), **seen), memory, season_s=DAY_S)
    return memory


def test_lateness_of_traffic_that_a_pool_could_train_is_counted() -> None:
    assert sum(_after((500.0, 0.0), (500.0, 90.0), (500.0, 90.0)).budget.late) > 0


def test_lateness_of_traffic_beyond_all_workers_is_not() -> None:
    beyond = _after((500.0, 0.0), (5000.0, 90.0), (5000.0, 120.0))

    assert beyond.overwhelmed
    assert sum(beyond.budget.late) == 0


def test_where_more_workers_train_less_it_is_the_best_size_that_may_be_overwhelmed() -> None:
    class Retrograde(Capacity):
        def samples_per_s(self, workers: int) -> float:
            return 100.0 * workers * max(1.0 - 0.1 * workers, 0.0)

    seen = planning(np.full(10, 220.0), limits=Limits(1, MOST), capacity=Retrograde(100.0))

    assert not noted(seen, PlannerMemory(), season_s=DAY_S).overwhelmed, "five train 250 a second, eight 160"


def test_what_such_traffic_left_is_not_counted_until_it_is_worked_off() -> None:
    draining = _after((5000.0, 90.0), (500.0, 120.0), (500.0, 70.0))
    drained = _after((5000.0, 90.0), (500.0, 70.0), (500.0, 50.0), (500.0, 90.0))

    assert draining.overwhelmed
    assert sum(draining.budget.late) == 0
    assert not drained.overwhelmed
    assert sum(drained.budget.late) > 0
