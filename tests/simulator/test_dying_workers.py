"""Workers that die every few minutes: what the pool shows of it is planned with."""

from __future__ import annotations

from estimator.rules.penstock import penstock
from services.simulator.course import course_of
from services.simulator.figures import figures_of
from services.simulator.run import simulate
from tests.estimator.planner.histories import daily
from tests.simulator.making import a_plant, a_trace


def test_the_pool_is_as_much_larger_as_workers_are_missing() -> None:
    """A life of ten minutes and a start of three: of thirteen workers ten train."""
    plant = a_plant(startup_s=180.0, crashes_per_worker_day=144.0, workers_max=40, warmup_days=1.2)
    course = course_of(a_trace(daily(1.5, swing=0.2, noise=0.02)), plant, seed=3, settle_s=6 * 3600.0)

    found = figures_of(simulate(penstock(explains=False), plant, course, seed=3), plant, seed=3)

    assert found.late_share < 0.05
