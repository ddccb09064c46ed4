"""Slots move while samples are trained and shards are killed at any step: none is lost or has two homes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.trainer.ps.world import STEPS, World


@pytest.mark.parametrize("seed", range(4))
def test_where_nobody_is_killed_every_sample_counts_once_wherever_its_slots_went(seed: int) -> None:
    world = World(seed, gentle=True)
    world.run()

    assert world.moves > 0, f"{seed=}"
    assert world.rewound == 0, f"{seed=}"


@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("seed", range(20))
def test_whoever_is_killed_every_row_lies_where_the_store_says_and_none_is_lost(
    seed: int, shards: int
) -> None:
    World(seed, shards=shards).run()


def test_nothing_is_lost_to_a_process_that_lives_on_when_another_was_started_in_its_place() -> None:
    usurped = 0
    for seed in range(2000, 2040):
        world = World(seed, usurping=0.6)
        world.run()
        usurped += world.usurped
    assert usurped > 100, "or nothing was tried"


def test_nothing_is_lost_at_whichever_step_of_a_move_a_shard_is_killed() -> None:
    killed_while = Counter[str]()
    for seed in range(1000, 1200):
        world = World(seed)
        world.run()
        killed_while += world.killed_while
        if all(killed_while[step] for step in STEPS):
            return
    raise AssertionError(f"nobody was killed while {[step for step in STEPS if not killed_while[step]]}")
