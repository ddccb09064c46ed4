"""A fleet's world: queues, GPUs that change hands, and a budget that holds whatever is asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.simulator.arrivals import Arrivals
from services.simulator.fleet import layout as at
from services.simulator.plant import Plant
from services.simulator.world import World
from tests.simulator.fleet.making import a_fleet, a_job, a_world, arriving, sizes


def test_a_fleet_of_one_job_is_the_single_jobs_world() -> None:
    rates = np.concatenate([np.full(5, 250.0), np.full(10, 520.0), np.full(20, 150.0)])
    plant = Plant(rate_per_worker=100.0, contention=0.03, startup_s=90.0, workers_max=16, noise=0.0)
    alone = World(plant, Arrivals(0.0, np.repeat(rates, 60)), seed=1)
    alone.populate(3)
    fleet = a_fleet(a_job(contention=0.03), startup_s=90.0)
    many = a_world(fleet, arriving(rates), sizes([3]))

    for second, workers in ((400, 5), (700, 6), (1500, 2)):
        alone.advance(second)
        many.advance(second)
        assert many.lag()[0] == pytest.approx(alone.lag, abs=1e-6)
        alone.ask(workers)
        many.ask(sizes([workers]))
    alone.advance(alone.end_s)
    many.advance(many.end_s)
    alone.drain()
    many.drain()

    minutes = alone.minutes.sum(axis=0)
    from services.simulator import layout as single

    assert many.sums[0, at.TRAINED] == pytest.approx(minutes[single.M_TRAINED])
    assert many.sums[0, at.LATE] == pytest.approx(minutes[single.M_LATE], rel=1e-6)
    assert minutes[single.M_LATE] > 0
    assert many.sums[0, at.LAG_AREA] == pytest.approx(minutes[single.M_LAG_AREA], rel=1e-6)


def test_a_worker_starts_only_where_a_gpu_is_free() -> None:
    fleet = a_fleet(a_job("first"), a_job("second"), gpus={"a": 4})
    world = a_world(fleet, arriving([0.0] * 10, [0.0] * 10), sizes([3], [0]))

    world.ask(sizes([3], [4]))

    assert world.census()[at.STARTING].ravel().tolist() == [0, 1]
    world.ask(sizes([1], [4]))
    world.advance(1)
    assert world.census()[at.STARTING].ravel().tolist() == [0, 1]  # the two that leave still drain
    world.advance(3)
    assert world.census()[at.STARTING].ravel().tolist() == [0, 3]
    world.advance(70)
    assert world.census()[at.READY].ravel().tolist() == [1, 3]


def test_who_asked_first_gets_the_gpu_that_becomes_free() -> None:
    fleet = a_fleet(a_job("holder"), a_job("late"), a_job("early"), gpus={"a": 2})
    world = a_world(fleet, arriving(*([[0.0] * 5] * 3)), sizes([2], [0], [0]))

    world.ask(sizes([2], [0], [1]))
    world.advance(10)
    world.ask(sizes([2], [1], [1]))
    world.advance(20)
    world.ask(sizes([1], [1], [1]))
    world.advance(30)

    assert world.census()[at.STARTING].ravel().tolist() == [0, 0, 1]


def test_types_train_at_their_own_rates_and_may_be_mixed() -> None:
    fleet = a_fleet(a_job(rates={"a": 100.0, "b": 300.0}, contention=0.5), gpus={"a": 2, "b": 2})
    world = a_world(fleet, arriving([1e6] * 2), sizes([1, 1]))

    world.advance(1)

    assert world.jobs[0, at.DONE] == pytest.approx(400.0 / 1.5)


def test_a_pause_stops_a_job_that_is_resized() -> None:
    fleet = a_fleet(a_job(), pause_s=30.0)
    world = a_world(fleet, arriving([1e6] * 5), sizes([2]))

    world.ask(sizes([1]))
    world.advance(30)

    assert world.jobs[0, at.DONE] == 0.0
    world.advance(31)
    assert world.jobs[0, at.DONE] == pytest.approx(100.0)


def test_a_guarantee_that_is_wanted_and_not_held_is_a_breach_after_the_time_it_takes_to_make_room() -> None:
    fleet = a_fleet(a_job("holder"), a_job("promised", guaranteed=2), gpus={"a": 4}, tick_s=10)
    world = a_world(fleet, arriving([0.0] * 5, [0.0] * 5), sizes([4], [0]))

    world.ask(sizes([4], [0]), sizes([4], [3]))
    world.advance(12)
    assert world.sums[1, at.BREACH_S] == 0.0
    world.advance(60)
    assert world.sums[1, at.BREACH_S] == pytest.approx(48.0)
    world.ask(sizes([2], [2]), sizes([4], [3]))
    world.advance(120)

    assert world.sums[1, at.BREACH_S] == pytest.approx(50.0)  # the two seconds of the drain
    assert world.sums[0, at.BREACH_S] == 0.0


def test_who_does_not_want_its_guarantee_is_not_wronged() -> None:
    fleet = a_fleet(a_job("holder"), a_job("idle", guaranteed=2), gpus={"a": 4})
    world = a_world(fleet, arriving([0.0] * 5, [0.0] * 5), sizes([4], [0]))

    world.ask(sizes([4], [0]), sizes([4], [0]))
    world.advance(120)

    assert world.sums[:, at.BREACH_S].sum() == 0.0


@settings(max_examples=25, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_no_sample_is_lost_and_no_budget_exceeded_whatever_is_asked(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fleet = a_fleet(
        a_job("one", rates={"a": 100.0, "b": 40.0}),
        a_job("two", rates={"b": 50.0}, guaranteed=1),
        a_job("three", rates={"a": 80.0}),
        gpus={"a": 3, "b": 4},
        startup_s={"median": 20.0, "p90": 60.0},
    )
    rates = rng.uniform(0.0, 400.0, (3, 12))
    world = a_world(fleet, arriving(*rates), sizes([1, 0], [0, 1], [1, 0]), seed=seed % 1000)
    for second in range(15, world.end_s, 45):
        world.advance(second)
        asked = data.draw(st.lists(st.integers(0, 9), min_size=4, max_size=4))
        world.ask(sizes([asked[0], asked[1]], [0, asked[2]], [asked[3], 0]))
        held = world.census()[at.STARTING :].sum(axis=(0, 1))
        assert (held <= world.capacity).all()
        assert (world.census()[at.STARTING : at.DRAINING].sum(axis=0) <= world.requested).all()
    world.advance(world.end_s)
    world.drain()

    assert world.jobs[:, at.DONE] == pytest.approx(60.0 * rates.sum(axis=1))
    assert world.sums[:, at.TRAINED] == pytest.approx(60.0 * rates.sum(axis=1))
    assert (world.sums[:, at.LATE] <= world.sums[:, at.TRAINED] * (1 + 1e-9)).all()
