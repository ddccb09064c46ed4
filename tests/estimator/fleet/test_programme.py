"""Several GPU types: the integer programme against every rule, against brute force, and when it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.fleet import (
    Binding,
    Budget,
    Configuration,
    Method,
    ShareRules,
    Standing,
    Wish,
    share,
)
from estimator.fleet.claims import claims_of, searchable
from estimator.fleet.configurations import Choice, Terms, choices_of, counts_of
from estimator.fleet.programme import LIMIT_REACHED, Solution, Unsolved, solved
from estimator.fleet.tenants import Tenants
from tests.estimator.fleet.fleets import TYPES, fleets, linear, verify, wishing

some = settings(max_examples=30, deadline=None)
EXACT_RULES = ShareRules(gap=0.0)


def on_both(name: str, demand: float, *, fast: float = 100.0, slow: float = 50.0, **rest: object) -> Wish:
    """A job that may run on two types."""
    curves = {"a100": linear(fast, 20), "t4": linear(slow, 20)}
    workers = {"a100": round(demand / fast), "t4": round(demand / slow)}
    standing = {key: rest.pop(key) for key in ("weight", "guaranteed", "gpu_types") if key in rest}
    return Wish(Standing(name, **standing), workers, curves, demand, **rest)  # type: ignore[arg-type]


@pytest.fixture
def two_types() -> Budget:
    return Budget.counted({"a100": 4, "t4": 8})


def test_jobs_that_want_the_same_type_are_spread_over_both(two_types: Budget) -> None:
    plan = share(two_types, [on_both("a", 400.0, preferred="a100"), on_both("b", 400.0, preferred="a100")])

    assert plan.method is Method.PROGRAMME
    assert sorted(a.given.gpu_type for a in plan.allotments) == ["a100", "t4"]
    assert [a.satisfaction for a in plan.allotments] == [1.0, 1.0]
    assert [a.binding for a in plan.allotments] == [Binding.WISH, Binding.WISH]


def test_the_type_goes_to_whom_it_speeds_up_most(two_types: Budget) -> None:
    keen = on_both("keen", 400.0, fast=100.0, slow=10.0, preferred="a100")
    easy = on_both("easy", 400.0, fast=100.0, slow=60.0, preferred="a100")
    plan = share(two_types, [easy, keen])

    assert [a.given.gpu_type for a in plan.allotments] == ["t4", "a100"]


def test_the_last_of_a_demand_is_worth_more_than_as_much_in_the_middle() -> None:
    """Five of five and three of five, rather than four and four: who is nearly served is late anyway."""
    asked = [on_both(name, 500.0, slow=0.01, preferred="a100") for name in ("a", "b")]
    budget = Budget.counted({"a100": 8, "t4": 1})

    def counts(rules: ShareRules) -> list[int]:
        return sorted(a.given.workers for a in share(budget, asked, rules=rules).allotments)

    assert counts(ShareRules()) == [3, 5]
    assert counts(ShareRules(met=0.0)) == [4, 4]


def test_the_first_gpus_of_one_beat_the_last_of_another_that_uses_them_better() -> None:
    asked = [
        on_both("a", 1100.0, fast=110.0, slow=0.01, preferred="a100"),
        on_both("b", 1000.0, fast=80.0, slow=0.01, preferred="a100"),
    ]
    budget = Budget.counted({"a100": 8, "t4": 1})

    def counts(rules: ShareRules) -> list[int]:
        return [a.given.workers for a in share(budget, asked, rules=rules).allotments]

    assert counts(ShareRules(met=0.0)) == [4, 4]
    assert counts(ShareRules(met=0.0, power=1.0)) == [8, 1]  # the one t4, which nobody else wants


def test_a_resize_that_pauses_is_made_only_where_it_is_worth_the_pause(two_types: Budget) -> None:
    stays = on_both("a", 400.0, current=Configuration("t4", 7), restart=0.5, preferred="t4")
    other = wishing("b", 1, kind="t4", weight=5.0)
    paused = share(two_types, [stays, other])
    hot = share(two_types, [replace(stays, restart=1.0), other])

    assert paused.allotments[0].given == Configuration("t4", 7)
    assert hot.allotments[0].given == Configuration("a100", 4)


def test_a_pinned_job_keeps_its_type_and_size(two_types: Budget) -> None:
    busy = on_both("a", 400.0, current=Configuration("a100", 3), pinned=True)
    plan = share(two_types, [busy, on_both("b", 400.0, preferred="a100")])

    assert plan.allotments[0].given == Configuration("a100", 3)
    assert plan.allotments[1].given == Configuration("t4", 8)


def test_a_guarantee_is_kept_on_another_type_where_that_trains_as_much(two_types: Budget) -> None:
    held = on_both("held", 200.0, guaranteed=2, gpu_types=("a100", "t4"), weight=0.01, preferred="a100")
    only = wishing("only", 4, weight=50.0)
    plan = share(two_types, [held, only])

    assert plan.allotments[0].satisfaction == 1.0
    assert plan.allotments[1].given == Configuration("a100", 4)


def test_the_programme_takes_no_guarantee_from_the_light_for_the_heavy(two_types: Budget) -> None:
    held = on_both("held", 400.0, slow=1.0, guaranteed=3, gpu_types=("a100", "t4"), weight=0.001)
    rich = [on_both(f"rich-{index}", 400.0, slow=1.0, weight=100.0) for index in range(3)]
    plan = share(two_types, [held, *rich])

    assert plan.method is Method.PROGRAMME
    assert plan.allotments[0].given == Configuration("a100", 3)


def test_a_solver_that_fails_leaves_the_heap_to_decide_and_says_so(two_types: Budget) -> None:
    def failing(*_: object) -> Solution:
        raise Unsolved("the solver found nothing: it broke")

    asked = [on_both("a", 400.0, preferred="a100"), on_both("b", 400.0, preferred="a100")]
    plan = share(two_types, asked, solve=failing)

    assert plan.method is Method.FALLBACK
    assert plan.note == "the solver found nothing: it broke"
    verify(two_types, asked, plan)
    assert [a.satisfaction for a in plan.allotments] == [1.0, 1.0]


def test_a_solver_without_time_leaves_the_heap_to_decide(two_types: Budget) -> None:
    asked = [on_both(f"job-{index}", 390.0, preferred="a100") for index in range(300)]
    plan = share(two_types, asked, rules=ShareRules(time_limit_s=1e-9))

    assert plan.method in {Method.FALLBACK, Method.PROGRAMME}
    assert plan.note
    verify(two_types, asked, plan)


def test_every_solve_has_the_time_limit(two_types: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def watched(solver: Callable[..., object]) -> Callable[..., object]:
        def solve(*arguments: object, **options: Any) -> object:
            limits.append(options["options"]["time_limit"])
            return solver(*arguments, **options)

        return solve

    monkeypatch.setattr("scipy.optimize.linprog", watched(scipy.optimize.linprog))
    monkeypatch.setattr("scipy.optimize.milp", watched(scipy.optimize.milp))
    share(two_types, [on_both("a", 400.0), on_both("b", 400.0)], rules=ShareRules(time_limit_s=7.0))

    assert limits == [7.0, 7.0]


def test_the_best_found_in_time_is_taken_and_how_far_from_the_optimum_it_may_be_is_told(
    two_types: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late:
        """Nobody has anything: possible, and far from the best."""

        status, message = LIMIT_REACHED, "time limit reached"

        def __init__(self, columns: int) -> None:
            self.x = np.zeros(columns)
            self.x[[0, columns // 2]] = 1.0  # the first choice of each of two jobs that are alike

    asked = [on_both("a", 400.0, preferred="a100"), on_both("b", 400.0, preferred="a100")]
    monkeypatch.setattr("scipy.optimize.milp", lambda values, **_: Late(len(values)))
    plan = share(two_types, asked)

    assert plan.method is Method.PROGRAMME
    assert plan.note == "the programme ran out of its 2 s"
    assert plan.gap == pytest.approx(1.0, abs=0.01)
    verify(two_types, asked, plan)
    assert [a.satisfaction for a in plan.allotments] == [1.0, 1.0]  # what it left was handed out


def test_a_solution_that_breaks_a_limit_is_not_taken(
    two_types: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bad:
        x, status, message, fun = np.array([0.0, 1.0, 0.0, 1.0]), 0, "", -2.0

    choices = (Choice(Configuration("", 0), 0, 0.0), Choice(Configuration("a100", 4), 4, 1.0))
    monkeypatch.setattr("scipy.optimize.milp", lambda *_, **__: Bad())

    with pytest.raises(Unsolved, match="gave 8 GPUs of a100, and there are 4"):
        solved([choices, choices], {"a100": 4}, EXACT_RULES)


def test_the_counts_considered_hold_guarantee_wish_current_and_whole_nodes() -> None:
    wish = Wish(
        Standing("a", guaranteed=3, gpu_types=("a100",)),
        {"a100": 29},
        {"a100": linear(10.0, 29)},
        290.0,
        current=Configuration("a100", 11),
    )
    budget = Budget.counted({"a100": 32})
    claim = searchable(claims_of([wish], budget, Tenants(), {wish.id: "a100"})[0])

    counts = counts_of(claim, "a100", 29, Terms.of(budget, ShareRules(counts_max=20)))
    few = counts_of(claim, "a100", 29, Terms.of(budget, ShareRules()))

    assert counts == {1, 2, 3, 4, 8, 10, 11, 12, 16, 24, 29}
    assert len(few) == 8
    assert {3, 10, 11, 12, 29} <= few


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[tuple[Choice, ...]], dict[str, int]]:
    """Small enough to try every combination."""
    jobs = []
    for _ in range(draw(st.integers(1, 4))):
        choices = [Choice(Configuration("", 0), 0.0, 0.0)]
        for kind in ("a100", "t4"):
            sizes = draw(st.lists(st.integers(1, 6), max_size=2, unique=True))
            choices += [
                Choice(Configuration(kind, size), float(size), draw(st.integers(1, 40)) / 4) for size in sizes
            ]
        jobs.append(tuple(choices))
    return jobs, {"a100": draw(st.integers(0, 10)), "t4": draw(st.integers(0, 10))}


def best_of_all(jobs: Sequence[Sequence[Choice]], there: Mapping[str, int]) -> float:
    best = 0.0
    for picks in product(*jobs):
        if all(sum(p.gpus for p in picks if p.at.gpu_type == kind) <= gpus for kind, gpus in there.items()):
            best = max(best, sum(pick.value for pick in picks))
    return best


@some
@given(problems())
def test_the_programme_finds_what_trying_everything_finds(
    problem: tuple[list[tuple[Choice, ...]], dict[str, int]],
) -> None:
    jobs, there = problem
    solution = solved(jobs, there, EXACT_RULES)
    found = sum(choices[at].value for choices, at in zip(jobs, solution.picked, strict=True))

    assert found == pytest.approx(best_of_all(jobs, there), abs=1e-6)


@some
@given(fleets())
def test_several_types_keep_every_rule(fleet: tuple[Budget, list[Wish]]) -> None:
    budget, asked = fleet

    verify(budget, asked, share(budget, asked))


@some
@given(fleets())
def test_the_heap_over_several_types_keeps_every_rule(fleet: tuple[Budget, list[Wish]]) -> None:
    def failing(*_: object) -> Solution:
        raise Unsolved("none")

    budget, asked = fleet

    verify(budget, asked, share(budget, asked, solve=failing))


@some
@given(fleets(jobs_max=4), st.sampled_from(TYPES))
def test_a_larger_budget_is_worth_no_less_to_the_programme(
    fleet: tuple[Budget, list[Wish]], kind: str
) -> None:
    budget, asked = fleet
    asked = [replace(wish, pinned=False) for wish in asked]
    counts = dict.fromkeys(TYPES, 0) | budget.gpus
    larger = {**counts, kind: counts[kind] + 3}

    plenty = Budget.counted(dict.fromkeys(counts, 1000))
    homes = {wish.id: wish.job.gpu_types[0] for wish in asked if wish.job.guaranteed}
    terms = Terms.of(plenty, EXACT_RULES)
    jobs = [choices_of(searchable(claim), terms) for claim in claims_of(asked, plenty, Tenants(), homes)]

    def worth(there: dict[str, int]) -> float:
        picked = solved(jobs, there, EXACT_RULES).picked
        return sum(choices[at].value for choices, at in zip(jobs, picked, strict=True))

    assert worth(larger) >= worth(counts) - 1e-6
