"""Plans for random clusters, judged by a verifier that knows the rules and not the planner."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shuffler.assignment import Assignment
from shuffler.rebalance import rebalance
from tests.shuffler.verifier import Case, violations

NAMES = [f"w{number}" for number in range(5)]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[float], dict[str, float]]:
    """Skewed partitions over uneven workers, few or many of either."""
    skew = draw(st.sampled_from([0.0, 0.5, 1.1, 3.0]))
    partitions = draw(st.integers(1, 10))
    loads = [draw(st.floats(1.0, 100.0)) / (rank + 1) ** skew for rank in range(partitions)]
    workers = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    spread = draw(st.sampled_from([1.0, 2.0, 8.0]))
    return draw(st.permutations(loads)), {w: draw(st.floats(10.0, 10.0 * spread)) for w in workers}


def planned(
    before: Assignment, loads: list[float], speeds: dict[str, float], moves_max: int | None = None
) -> Case:
    after, moves = rebalance(before, loads, speeds, moves_max=moves_max)
    return Case(before, loads, speeds, after, moves, moves_max)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(clusters(), min_size=2, max_size=4), st.sampled_from([None, 0, 1, 3]), st.randoms())
def test_no_rule_is_broken_while_workers_come_and_go_and_loads_drift(
    worlds: list[tuple[list[float], dict[str, float]]], moves_max: int | None, chance: random.Random
) -> None:
    before = Assignment()
    for loads, speeds in worlds:
        case = planned(before, loads, speeds, moves_max)

        assert violations(case) == []
        shuffled = list(speeds.items())
        chance.shuffle(shuffled)
        assert planned(before, loads, dict(shuffled), moves_max).after == case.after, "not deterministic"
        before = case.after


def test_what_comes_home_again_uses_up_no_move() -> None:
    """Partition 4 leaves w1 for want of better, and comes back once partition 1 has left."""
    before = Assignment({0: ("w3",), 1: ("w1",), 2: ("w1",), 3: ("w2",), 4: ("w1",)})
    speeds = {"w0": 46.0, "w1": 10.0, "w2": 10.0, "w3": 69.0, "w4": 10.0}

    case = planned(before, [14.0, 27.99, 13.738, 0.2176, 2.38375], speeds, moves_max=3)

    assert violations(case) == []
    assert case.after.owners[0] == ("w0",)


@settings(max_examples=40)
@given(clusters())
def test_a_plan_in_force_stays_in_force(cluster: tuple[list[float], dict[str, float]]) -> None:
    first = planned(Assignment(), *cluster)

    again = planned(first.after, *cluster)

    assert again.after == first.after
    assert again.moves == ()


@settings(max_examples=40)
@given(clusters(), st.integers(1, 3))
def test_moves_that_were_put_off_are_made_up_for(
    cluster: tuple[list[float], dict[str, float]], moves_max: int
) -> None:
    """Tick by tick, a few moves at a time, a plan gets as good as it would at once."""
    loads, speeds = cluster
    plan = Assignment({p: (min(speeds),) for p in range(len(loads))})
    for _ in range(len(loads) * len(speeds)):
        case = planned(plan, loads, speeds, moves_max)
        if case.after == plan:
            break
        plan = case.after

    assert violations(planned(plan, loads, speeds)) == []
    assert planned(plan, loads, speeds).after == plan, "it still wants to move"


SOUND = Case(
    before=Assignment({0: ("a",), 1: ("b",), 2: ("a",), 3: ("b",)}),
    loads=[5.0, 5.0, 5.0, 5.0],
    speeds={"a": 1.0, "b": 1.0},
    after=Assignment({0: ("a",), 1: ("b",), 2: ("a",), 3: ("b",)}),
    moves=(),
)
BROKEN: dict[str, Callable[[Case], Case]] = {
    "missing": lambda case: replace(case, after=Assignment({0: ("a",), 1: ("b",), 2: ("a",)})),
    "no owner": lambda case: owning(case, {3: ()}),
    "not there": lambda case: owning(case, {3: ("dead",)}),
    "twice": lambda case: owning(case, {3: ("b", "b")}),
    "nothing to do": lambda case: replace(owning(case, {}), speeds={"a": 1.0, "b": 1.0, "c": 0.1}),
    "not split": lambda case: replace(case, loads=[100.0, 1.0, 1.0, 1.0]),
    "without need": lambda case: owning(case, {3: ("b", "a")}),
    "nobody was told": lambda case: owning(case, {0: ("b",), 1: ("a",)}),
    "are allowed": lambda case: replace(owning(case, {0: ("b",), 1: ("a",)}), moves_max=1),
    "within tolerance": lambda case: owning(case, {0: ("b",), 1: ("a",)}),
    "would lower the peak": lambda case: owning(case, {0: ("b",), 2: ("b",), 1: ("a",)}),
}


def owning(case: Case, other: dict[int, tuple[str, ...]]) -> Case:
    return replace(case, after=Assignment({**case.after.owners, **other}))


def test_the_verifier_has_nothing_to_say_of_a_sound_plan() -> None:
    assert violations(SOUND) == []


@pytest.mark.parametrize("rule", BROKEN)
def test_the_verifier_sees_each_rule_broken(rule: str) -> None:
    assert rule in "; ".join(violations(BROKEN[rule](SOUND)))
