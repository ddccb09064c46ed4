"""Who gets what of a fleet: one type, several types, and what can be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.fleet import (
    NOTHING,
    Binding,
    Budget,
    Configuration,
    FleetPlan,
    GuaranteesExceedBudget,
    InvalidFleet,
    JobId,
    Method,
    Standing,
    Tenant,
    Tenants,
    UnknownTenant,
    Wish,
    share,
)
from tests.estimator.fleet.fleets import fleets, linear, satisfied, verify, wishing

ONE = ("a100",)
some = settings(max_examples=50, deadline=None)


def counts(plan: FleetPlan) -> list[int]:
    return [allotment.given.workers for allotment in plan.allotments]


def test_without_contention_everybody_has_the_wish_and_nothing_is_priced() -> None:
    plan = share(Budget.counted({"a100": 8}), [wishing("a", 5), wishing("b", 3)])

    assert counts(plan) == [5, 3]
    assert plan.method is Method.WISHES
    assert plan.prices == {}
    assert [allotment.binding for allotment in plan.allotments] == [Binding.WISH, Binding.WISH]


def test_a_wish_that_fits_is_given_even_where_its_last_workers_add_little() -> None:
    curve = (0.0, 100.0, 105.0)
    wish = Wish(Standing("a"), {"a100": 2}, {"a100": curve}, 105.0)

    assert counts(share(Budget.counted({"a100": 2}), [wish])) == [2]


def test_under_contention_the_guarantee_comes_first() -> None:
    rich = wishing("rich", 10, weight=100.0)
    poor = wishing("poor", 10, weight=0.001, guaranteed=4)

    assert counts(share(Budget.counted({"a100": 10}), [rich, poor])) == [6, 4]


def test_equal_weights_end_equally_satisfied_whatever_their_size() -> None:
    large, small = wishing("large", 12), wishing("small", 4)

    assert counts(share(Budget.counted({"a100": 8}), [large, small])) == [6, 2]


def test_twice_the_weight_is_twice_as_satisfied() -> None:
    plan = share(Budget.counted({"a100": 9}), [wishing("a", 10, weight=2.0), wishing("b", 10)])

    assert counts(plan) == [6, 3]


def test_a_tenants_weight_counts_between_tenants_and_a_jobs_only_within() -> None:
    tree = Tenants((Tenant("ads", 1.0), Tenant("feed", 2.0)))
    jobs = [
        wishing("a", 10, tenant="ads", weight=100.0),
        wishing("b", 10, tenant="ads", weight=100.0),
        wishing("c", 10, tenant="feed", weight=1.0),
    ]

    assert counts(share(Budget.counted({"a100": 12}), jobs, tree)) == [3, 3, 6]


def test_weights_hold_through_tenants_of_tenants() -> None:
    tree = Tenants((Tenant("org"), Tenant("ads", 1.0, "org"), Tenant("feed", 3.0, "org")))
    jobs = [wishing("a", 10, tenant="ads"), wishing("c", 10, tenant="feed")]

    assert counts(share(Budget.counted({"a100": 8}), jobs, tree)) == [2, 6]


def test_the_weight_of_a_tenant_above_counts_for_all_below_it() -> None:
    below = (Tenant("x", 1.0, "large"), Tenant("y", 1.0, "large"), Tenant("z", 1.0, "x"))
    tree = Tenants((Tenant("small", 1.0), Tenant("large", 3.0), *below))
    jobs = [Standing("a", "small"), Standing("b", "z"), Standing("c", "y")]

    assert list(tree.weights(jobs).values()) == [0.5, 1.5, 1.5]


def test_a_worker_that_adds_less_than_a_fifth_of_the_first_goes_back_to_the_fleet() -> None:
    flat = Wish(Standing("flat"), {"a100": 6}, {"a100": (0, 100, 150, 160, 170, 180, 190)}, 1000.0)
    plan = share(Budget.counted({"a100": 10}), [flat, wishing("steep", 8)])

    assert counts(plan) == [2, 8]
    assert plan.allotments[0].binding is Binding.EFFICIENCY


@pytest.mark.parametrize(("adds", "workers"), [(19.0, 1), (21.0, 4)])
def test_a_fifth_is_where_a_worker_goes_back(adds: float, workers: int) -> None:
    curve = tuple(100.0 + adds * more for more in range(4))
    poor = Wish(Standing("poor"), {"a100": 4}, {"a100": (0.0, *curve)}, 10_000.0)

    assert counts(share(Budget.counted({"a100": 9}), [poor, wishing("steep", 8)])) == [workers, 9 - workers]


def test_what_nobody_uses_better_is_given_all_the_same() -> None:
    flat = Wish(Standing("flat"), {"a100": 6}, {"a100": (0, 100, 150, 160, 170, 180, 190)}, 1000.0)

    assert counts(share(Budget.counted({"a100": 11}), [flat, wishing("steep", 8)])) == [3, 8]


def test_past_the_peak_of_a_curve_more_workers_are_worth_what_fewer_were() -> None:
    peaked = Wish(Standing("peaked"), {"a100": 4}, {"a100": (0, 100, 200, 120, 90)}, 400.0)
    plan = share(Budget.counted({"a100": 6}), [peaked, wishing("other", 6)])

    assert counts(plan) == [2, 4]
    assert plan.allotments[0].satisfaction == 0.5


def test_a_weight_of_zero_is_served_from_what_the_others_leave() -> None:
    jobs = [wishing("none", 4, weight=0.0), wishing("some", 6)]

    assert counts(share(Budget.counted({"a100": 6}), jobs)) == [0, 6]
    assert counts(share(Budget.counted({"a100": 8}), jobs)) == [2, 6]


def test_when_all_weights_are_zero_they_count_alike() -> None:
    jobs = [wishing("a", 6, weight=0.0), wishing("b", 6, weight=0.0)]

    assert counts(share(Budget.counted({"a100": 6}), jobs)) == [3, 3]


def test_workers_of_many_gpus_leave_the_rest_to_smaller_ones() -> None:
    jobs = [wishing("gang", 2, gpus_per_worker=8.0), wishing("single", 8)]

    assert counts(share(Budget.counted({"a100": 12}), jobs)) == [1, 4]
    assert counts(share(Budget.counted({"a100": 13}), jobs)) == [1, 5]  # though the gang's next does not fit


def test_a_job_runs_with_its_fewest_workers_or_not_at_all() -> None:
    jobs = [wishing("gang", 4, workers_min=3), wishing("single", 4)]

    assert counts(share(Budget.counted({"a100": 2}), jobs)) == [0, 2]
    assert counts(share(Budget.counted({"a100": 4}), jobs)) == [3, 1]


def test_a_job_in_the_middle_of_a_resize_keeps_what_it_has() -> None:
    plan = share(Budget.counted({"a100": 6}), [wishing("busy", 8, current=5, pinned=True), wishing("b", 8)])

    assert counts(plan) == [5, 1]
    assert plan.allotments[0].binding is Binding.PINNED


def test_a_pin_that_no_longer_fits_does_not_hold_and_the_plan_says_so() -> None:
    plan = share(Budget.counted({"a100": 4}), [wishing("busy", 8, current=5, pinned=True), wishing("b", 8)])

    assert counts(plan) == [2, 2]
    assert "resize" in plan.note


def test_two_tenants_may_name_a_job_alike() -> None:
    plan = share(Budget.counted({"a100": 3}), [wishing("x", 2, tenant="ads"), wishing("x", 4, tenant="feed")])

    assert plan.of(JobId("ads", "x")).given.workers == 1
    assert plan.of(JobId("feed", "x")).given.workers == 2


def test_a_job_that_wishes_twice_is_refused() -> None:
    with pytest.raises(InvalidFleet, match="job x wishes twice"):
        share(Budget.counted({"a100": 3}), [wishing("x", 2), wishing("x", 4)])


def test_guarantees_beyond_the_budget_are_refused_with_their_sum() -> None:
    with pytest.raises(GuaranteesExceedBudget, match="7 of a100 against 6"):
        share(Budget.counted({"a100": 6}), [wishing("a", 1, guaranteed=3), wishing("b", 9, guaranteed=4)])


def test_a_guarantee_on_a_type_that_the_budget_never_had_is_refused() -> None:
    with pytest.raises(GuaranteesExceedBudget, match="3 of h100 against 0"):
        share(Budget.counted({"a100": 6}), [wishing("a", 3, kind="h100", gpu_types=("h100",), guaranteed=3)])


def test_while_nodes_are_lost_the_guarantees_are_served_from_what_is_left() -> None:
    whole = Budget.counted({"a100": 8}, node_gpus=4)
    jobs = [wishing("a", 4, guaranteed=4), wishing("b", 4, guaranteed=2), wishing("c", 4, weight=9.0)]
    plan = share(whole.losing(["a100-0"]), jobs)

    assert counts(plan) == [2, 2, 0]


def test_a_guarantee_whose_type_vanished_moves_to_another_type_of_its_job() -> None:
    both = Budget.counted({"a100": 4, "t4": 4}, node_gpus=4)
    curves = {"a100": linear(100.0, 4), "t4": linear(50.0, 4)}
    moving = Wish(Standing("m", gpu_types=("a100", "t4"), guaranteed=2), {"a100": 4, "t4": 4}, curves, 400.0)
    plan = share(both.losing(["a100-0"]), [moving, wishing("other", 4, kind="t4", weight=50.0)])

    assert plan.allotments[0].given.gpu_type == "t4"
    assert plan.allotments[0].given.workers >= 2


def test_a_job_whose_only_type_vanished_gets_nothing_and_is_told_why() -> None:
    plan = share(Budget.counted({"a100": 4}), [wishing("gone", 2, kind="h100"), wishing("a", 4)])

    assert plan.allotments[0].given == NOTHING
    assert plan.allotments[0].asked == Configuration("h100", 2)
    assert plan.allotments[0].binding is Binding.NO_TYPE
    assert plan.method is Method.WISHES


@pytest.mark.parametrize("curve", [(0.0, float("nan")), (0.0, -1.0), (0.0, float("inf"))])
def test_a_curve_that_is_no_curve_is_refused_where_it_is_given(curve: tuple[float, ...]) -> None:
    with pytest.raises(InvalidFleet, match="curve of 'a100'"):
        Wish(Standing("liar"), {"a100": 1}, {"a100": curve}, 10.0)


def test_a_curve_that_lies_takes_nobodys_guarantee_and_no_more_than_it_may_have() -> None:
    liar = Wish(Standing("liar", workers_max=6), {"a100": 50}, {"a100": linear(1.0, 50)}, 1e6)
    honest = wishing("honest", 8, guaranteed=3)

    assert counts(share(Budget.counted({"a100": 8}), [liar, honest])) == [5, 3]
    assert counts(share(Budget.counted({"a100": 12}), [liar, honest])) == [6, 6]


def test_a_job_that_says_its_workers_train_nothing_does_not_drain_the_fleet() -> None:
    liar = Wish(Standing("liar"), {"a100": 50}, {"a100": (0.0,) * 51}, 1e9)

    assert counts(share(Budget.counted({"a100": 10}), [liar, wishing("honest", 8)])) == [2, 8]


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_that_is_no_number_from_zero_is_refused(weight: float) -> None:
    with pytest.raises(InvalidFleet, match="a weight is a number from 0"):
        Standing("a", weight=weight)


def test_tenants_that_are_not_there_or_their_own_ancestors_are_refused() -> None:
    with pytest.raises(UnknownTenant, match="'org'"):
        Tenants((Tenant("ads", parent="org"),))
    with pytest.raises(InvalidFleet, match="its own ancestor"):
        Tenants((Tenant("a", parent="b"), Tenant("b", parent="a")))
    with pytest.raises(UnknownTenant, match="'video'"):
        share(Budget.counted({"a100": 1}), [wishing("x", 1, tenant="video")], Tenants((Tenant("ads"),)))


@some
@given(fleets(types=ONE))
def test_one_type_keeps_every_rule(fleet: tuple[Budget, list[Wish]]) -> None:
    budget, asked = fleet

    verify(budget, asked, share(budget, asked))


@some
@given(fleets(), st.randoms(use_true_random=False))
def test_the_order_of_the_wishes_does_not_matter(fleet: tuple[Budget, list[Wish]], random: object) -> None:
    budget, asked = fleet
    shuffled = list(asked)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    first, second = share(budget, asked), share(budget, shuffled)

    assert {a.job: a.given for a in first.allotments} == {a.job: a.given for a in second.allotments}


@some
@given(fleets(types=ONE), st.integers(1, 6))
def test_more_gpus_never_lower_the_least_satisfied(fleet: tuple[Budget, list[Wish]], more: int) -> None:
    budget, asked = fleet
    asked = [replace(wish, pinned=False) for wish in asked]
    larger = Budget.counted({"a100": budget.gpus.get("a100", 0) + more})

    def least(plan: FleetPlan) -> float:
        lacking = [a.satisfaction / a.weight for a in plan.allotments if a.weight and a.satisfaction < 1]
        return min(lacking, default=float("inf"))

    assert least(share(larger, asked)) >= least(share(budget, asked)) - 1e-9


@some
@given(fleets(types=ONE, whole=True), st.integers(1, 6))
def test_more_gpus_take_nothing_from_anybody(fleet: tuple[Budget, list[Wish]], more: int) -> None:
    budget, asked = fleet
    asked = [
        replace(wish, pinned=False, curves={kind: linear(10.0, 10) for kind in wish.curves}) for wish in asked
    ]
    before = share(budget, asked)
    after = share(Budget.counted({"a100": budget.gpus.get("a100", 0) + more}), asked)

    for small, large in zip(before.allotments, after.allotments, strict=True):
        assert large.given.workers >= small.given.workers


@some
@given(fleets(types=ONE, whole=True))
def test_nobody_envies_another_beyond_weights(fleet: tuple[Budget, list[Wish]]) -> None:
    """Before its last worker, whoever is above the guarantee was no better off for its weight than others."""
    budget, asked = fleet
    asked = [
        replace(wish, pinned=False, curves={kind: linear(10.0, 10) for kind in wish.curves}) for wish in asked
    ]
    plan = share(budget, asked)
    lacking = [
        a.satisfaction / a.weight
        for a in plan.allotments
        if a.weight and a.satisfaction < 1 and a.given.workers < a.asked.workers
    ]
    for wish, has in zip(asked, plan.allotments, strict=True):
        before = satisfied(wish, Configuration(has.given.gpu_type, has.given.workers - 1))
        if has.given.workers > wish.job.guaranteed and has.weight and before < 1:
            assert before / has.weight <= min(lacking, default=1e9) + 1e-9
