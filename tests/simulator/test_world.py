"""Laws of the world: nothing is lost, nothing overtakes, nothing is negative."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.simulator import layout as at
from services.simulator.world import World
from tests.simulator.making import a_plant, a_world, arriving

HANDOVERS = ("leases", "cooperative", "eager", "restart")


def buffeted(seed: int, shuffle: str) -> World:
    """A world with skew, crashes and stragglers whose pool is resized at random, beyond what it can train."""
    rng = np.random.default_rng(seed)
    plant = a_plant(
        shuffle=shuffle,
        pause_s=float(rng.choice([0.0, 2.5, 20.0])),
        partitions=int(rng.integers(1, 12)),
        skew=float(rng.choice([0.0, 1.0])),
        crashes_per_worker_day=50.0,
        straggler_share=0.3,
        startup_s={"median": 30.0, "p90": 200.0},
    )
    world = a_world(plant, arriving(*rng.uniform(0, 1500, 60)), workers=int(rng.integers(0, 8)), seed=seed)
    for second in range(10, world.end_s, 10):
        world.advance(second)
        if rng.random() < 0.1:
            world.ask(int(rng.integers(0, 16)))
        check(world)
    world.advance(world.end_s)
    return world


def check(world: World) -> None:
    """What holds at every moment."""
    count, now = world.count, world.now_s
    assert world.lag >= 0
    assert world.arrived[now] == pytest.approx(count[at.TRAINED_TOTAL] + world.lag, rel=1e-6, abs=1e-3)
    assert np.all(world.parts[:, at.DONE] <= world.arrived[now] * (1 + 1e-12))
    phases = world.workers[:, at.PHASE]
    assert np.count_nonzero((phases == at.STARTING) | (phases == at.READY)) == world.requested
    assert count[at.HELD_COUNT] >= world.requested
    assert count[at.READY_COUNT] <= world.requested


@pytest.mark.parametrize("shuffle", HANDOVERS)
@pytest.mark.parametrize("seed", range(8))
def test_samples_in_are_trained_or_queued_and_all_are_trained_in_the_end(seed: int, shuffle: str) -> None:
    world = buffeted(seed, shuffle)
    world.drain()

    total = world.minutes.sum(axis=0)
    assert total[at.M_TRAINED] == pytest.approx(world.arrived[-1])
    assert world.delays.sum() == pytest.approx(world.arrived[-1])
    assert 0 <= total[at.M_LATE] <= total[at.M_TRAINED]
    assert np.all(world.minutes >= 0)


def test_the_oldest_sample_is_trained_first() -> None:
    # 200/s arrive for a minute at one worker of 100/s: after that minute 6000 wait. FIFO trains them in
    # the next minute, the last one 60 s late; nothing that arrives then is trained before.
    world = a_world(a_plant(slo_s=29.0), arriving(200.0, 0.0), workers=1)
    world.advance(60)
    assert world.lag == pytest.approx(6000.0)
    world.advance(120)

    assert world.lag == pytest.approx(0.0, abs=1e-6)
    delays = np.flatnonzero(world.delays)
    assert delays.max() == 60
    # Sample i waits i/200 s more for each second: half are delayed by more than 30 s.
    assert world.minutes[:, at.M_LATE].sum() / 12_000 == pytest.approx(0.5, abs=0.02)


def test_a_worker_trains_once_its_start_up_is_over_and_is_charged_from_the_asking() -> None:
    world = a_world(a_plant(startup_s=45.0), arriving(150.0, 150.0), workers=1)
    world.ask(2)
    world.advance(45)
    assert world.count[at.READY_COUNT] == 1
    assert world.lag == pytest.approx(45 * 50.0)
    world.advance(120)

    assert world.minutes[:, at.M_HELD].sum() == 240.0
    assert world.minutes[:, at.M_READY].sum() == 120.0 + 75.0


def test_a_start_that_is_called_off_does_not_come_back_sooner() -> None:
    world = a_world(a_plant(startup_s={"median": 100.0, "p90": 5000.0}), arriving(*[10.0] * 10), workers=1)
    world.ask(9)
    slowest = world.workers[:, at.READY_AT].max()
    world.ask(1)
    world.ask(2)

    starting = world.workers[world.workers[:, at.PHASE] == at.STARTING]
    assert starting[:, at.READY_AT].tolist() == [slowest]


def test_restart_stops_everybody_for_the_pause() -> None:
    world = a_world(
        a_plant(shuffle="restart", pause_s=20.0, startup_s=30.0), arriving(100.0, 100.0), workers=2
    )
    world.ask(3)
    world.advance(30)
    assert world.lag == 0.0
    world.advance(50)
    assert world.lag == pytest.approx(2000.0)
    world.advance(120)

    assert world.minutes[:, at.M_DOWN].sum() == 20.0
    assert world.minutes[:, at.M_LOST].sum() == 60.0


def test_an_eager_group_stops_for_a_leaver_too_and_leases_do_not() -> None:
    eager = a_world(a_plant(shuffle="eager", pause_s=10.0), arriving(100.0), workers=4)
    leased = a_world(a_plant(shuffle="leases"), arriving(100.0), workers=4)
    for world in (eager, leased):
        world.ask(3)
        world.advance(60)

    assert eager.minutes[:, at.M_DOWN].sum() == 10.0
    assert leased.minutes[:, at.M_DOWN].sum() == 0.0


def test_cooperative_lets_only_moved_partitions_wait() -> None:
    world = a_world(a_plant(shuffle="cooperative", pause_s=10.0, partitions=8), arriving(100.0), workers=4)
    world.ask(3)
    blocked = np.count_nonzero(world.parts[:, at.BLOCKED_UNTIL] > 0)
    world.advance(10)

    assert blocked == 2
    assert world.lag == pytest.approx(100.0 * 10 * 2 / 8)
    assert world.minutes[:, at.M_DOWN].sum() == 0.0


def test_leases_with_a_pause_let_moved_ranges_wait_while_all_workers_go_on() -> None:
    world = a_world(a_plant(shuffle="leases", pause_s=10.0, partitions=8), arriving(100.0), workers=4)
    world.ask(3)
    world.advance(10)

    assert world.lag == pytest.approx(100.0 * 10 * 2 / 8)


def test_a_hot_partition_of_a_group_lags_alone() -> None:
    skewed = {"partitions": 4, "skew": 2.0}
    group = a_world(a_plant(shuffle="cooperative", **skewed), arriving(300.0), workers=4)
    leased = a_world(a_plant(shuffle="leases", **skewed), arriving(300.0), workers=4)
    for world in (group, leased):
        world.advance(60)
    behind = group.arrived[60] - group.parts[:, at.DONE]

    assert leased.lag == 0.0
    assert group.lag > 0
    assert np.count_nonzero(behind > 1e-6) == 1


def test_workers_beyond_the_partitions_idle_in_a_group() -> None:
    group = a_world(a_plant(shuffle="eager", partitions=2), arriving(400.0), workers=4)
    leased = a_world(a_plant(shuffle="leases", partitions=2), arriving(400.0), workers=4)
    for world in (group, leased):
        world.advance(60)

    assert group.lag == pytest.approx(60 * 200.0)
    assert leased.lag == 0.0


@settings(max_examples=60, deadline=None)
@given(ready=st.integers(1, 12), more=st.integers(1, 12), partitions=st.integers(1, 40))
def test_partitions_are_dealt_evenly_by_number_with_few_moves(ready: int, more: int, partitions: int) -> None:
    plant = a_plant(shuffle="cooperative", partitions=partitions, startup_s=0.0)
    world = a_world(plant, arriving(1.0), workers=ready)
    before = world.parts[:, at.OWNER].copy()
    world.ask(more)
    world.advance(1)
    owners = world.parts[:, at.OWNER]

    counts = np.unique_counts(owners).counts
    assert counts.max() - counts.min() <= 1
    assert len(counts) == min(more, partitions)
    if more >= ready:
        share = partitions - partitions * ready // more
        assert np.count_nonzero(owners != before) <= share + more


def test_a_crashed_worker_is_replaced_and_counted() -> None:
    world = a_world(a_plant(crashes_per_worker_day=2000.0, startup_s=10.0), arriving(*[50.0] * 30), workers=4)
    world.advance(world.end_s)

    assert world.count[at.FAILURES] > 10
    assert world.requested == 4


def test_a_straggler_trains_less_in_a_busy_second() -> None:
    slow = a_world(a_plant(straggler_share=1.0, straggler_speed=0.5), arriving(100.0), workers=1)
    slow.advance(60)

    assert slow.lag == pytest.approx(3000.0)


def test_under_load_slowdown_a_half_idle_pool_is_less_busy_than_its_share() -> None:
    by_members, by_load = (
        a_world(a_plant(contention=0.05, slowdown=slowdown), arriving(300.0), workers=10)
        for slowdown in ("members", "load")
    )
    by_members.advance(60)
    by_load.advance(60)

    assert by_members.workers[0, at.BUSY_S] / 60 == pytest.approx(300.0 / by_members.curve[10])
    assert by_load.workers[0, at.BUSY_S] < by_members.workers[0, at.BUSY_S]


def test_an_empty_pool_is_drained_by_one_worker_and_charged() -> None:
    world = a_world(a_plant(workers_min=0), arriving(100.0), workers=0)
    world.advance(60)
    world.drain()

    assert world.lag == 0.0
    assert world.minutes[-1, at.M_HELD] >= 60 + 60


BY_HAND = """
from tests.simulator.making import a_plant, a_world, arriving
plant = a_plant(shuffle="cooperative", pause_s=5.0, partitions=6, skew=0.5, startup_s=20.0)
world = a_world(plant, arriving(350.0, 50.0), workers=2)
world.advance(10)
world.ask(4)
world.advance(120)
print(world.minutes.round(6).tolist())
"""


def test_plain_python_and_compiled_code_agree() -> None:
    def said(**environment: str) -> str:
        run = subprocess.run(
            [sys.executable, "-c", BY_HAND],
            env={**os.environ, **environment},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        return run.stdout

    assert said() == said(NUMBA_DISABLE_JIT="1")
