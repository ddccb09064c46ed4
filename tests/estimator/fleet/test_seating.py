"""Counts become places: what a plan gives, without breaking up what is guaranteed to others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from estimator.fleet import Binding, Budget, Configuration, InvalidFleet, JobId, Node, Standing, Wish, share
from estimator.fleet.layout import Resident
from estimator.fleet.seating import check_guarantees, seated
from tests.estimator.fleet.fleets import fleets, wishing

TWO_NODES = Budget((Node("n0", "a100", 4), Node("n1", "a100", 4)))


def test_a_worker_of_four_gpus_finds_no_place_on_two_halves_and_is_told_so() -> None:
    asked = [wishing("wide", 1, gpus_per_worker=4.0), wishing("a", 2), wishing("b", 2)]
    there = [Resident(JobId("", "a"), "n0", 2), Resident(JobId("", "b"), "n1", 2)]
    seating = seated(TWO_NODES, asked, share(TWO_NODES, asked), there)

    assert seating.plan.allotments[0].binding is Binding.PLACE
    assert seating.plan.allotments[0].satisfaction == 0.0
    assert seating.placements["a100"].seats == tuple(there)


def test_idle_guarantees_are_kept_free_unless_they_are_lent() -> None:
    asked = [wishing("held", 0, guaranteed=4), wishing("surge", 8)]
    plan = share(TWO_NODES, asked)

    kept = seated(TWO_NODES, asked, plan, [])
    lent = seated(TWO_NODES, asked, plan, [], lent={JobId("", "held"): 4})

    assert kept.plan.of(JobId("", "surge")).given == Configuration("a100", 4)
    assert lent.plan.of(JobId("", "surge")).given == Configuration("a100", 8)


def test_guarantees_that_no_node_can_hold_are_refused_by_their_cells() -> None:
    with pytest.raises(InvalidFleet, match="which its nodes cannot hold together"):
        check_guarantees(TWO_NODES, [Standing("wide", guaranteed=1, gpus_per_worker=8.0)])
    check_guarantees(TWO_NODES, [Standing("wide", guaranteed=2, gpus_per_worker=4.0)])


@settings(max_examples=40, deadline=None)
@given(fleets(types=("a100",), whole=True))
def test_no_job_is_later_in_the_shared_cluster_than_alone_on_its_guarantee(
    fleet: tuple[Budget, list[Wish]],
) -> None:
    budget, asked = fleet
    asked = [replace(wish, pinned=False) for wish in asked]
    seating = seated(budget, asked, share(budget, asked), [])
    for wish, allotment in zip(asked, seating.plan.allotments, strict=True):
        kind = wish.job.gpu_types[0]
        alone = min(wish.job.guaranteed, wish.workers[kind])
        trained = max(wish.curves[kind][: alone + 1])
        satisfied = min(1.0, trained / wish.demand_per_s) if wish.demand_per_s else 1.0
        assert allotment.satisfaction >= satisfied - 1e-9
