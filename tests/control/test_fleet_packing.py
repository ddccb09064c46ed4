"""Who leaves when a pool of the fleet shrinks: whole nodes come free."""

from __future__ import annotations

from dataclasses import replace

from estimator.fleet import Binding, Budget, JobId, Node, Standing
from services.control.decide import decide
from services.control.fleet_share import FleetShare, FleetTerms
from services.control.types import (
    ControlState,
    Decision,
    Override,
)
from tests.control.test_fleet_cells import seen
from tests.control.worlds import a_policy

CLUSTER = Budget((Node("n1", "a100", 8), Node("n2", "a100", 8), Node("n3", "a100", 8)))


def shrunk(standing: Standing, nodes: tuple[str, ...], others: tuple[str, ...]) -> Decision:
    """What becomes of a job that is told to have two workers less, beside another on `others`."""
    share, decisions = FleetShare(FleetTerms(CLUSTER), interval_s=10.0), []
    for at_s in (1000.0, 1010.0):
        for name, at, wanted in (("other", others, len(others)), ("ads", nodes, len(nodes) - 2)):
            observed, state = seen(name, at, at_s), ControlState(planned=len(at))
            policy = replace(a_policy(), override=Override(wanted, 1e9))
            decision = decide(observed, state, policy)
            grant = share.grant(decision, replace(standing, name=name), observed, policy.slo)
            if grant is not None:
                held = replace(observed, fleet_max=grant.workers, leaving_order=grant.order)
                decision = decide(held, state, policy)
            decisions.append(decision)
    return decisions[-1]


def left(decision: Decision) -> tuple[str, ...]:
    assert decision.resize is not None
    return tuple(sorted(decision.resize.remove))


def test_workers_of_whole_gpus_leave_the_emptiest_node() -> None:
    nodes = ("n2", "n1", "n1", "n2", "n1")

    assert left(shrunk(Standing("ads"), nodes, ("n1", "n1"))) == ("ads-0", "ads-3")


def test_parts_of_a_gpu_leave_the_fullest_node() -> None:
    nodes = ("n1", "n1", "n2", "n2", "n2")

    assert left(shrunk(Standing("ads", gpus_per_worker=0.5), nodes, ("n1",) * 6)) == ("ads-0", "ads-1")


def test_where_no_node_is_told_the_youngest_leave() -> None:
    assert left(shrunk(Standing("ads"), ("", "", "", "", ""), ("n1",))) == ("ads-3", "ads-4")


def test_the_machines_are_shown_with_whose_workers_are_on_them() -> None:
    share = FleetShare(FleetTerms(CLUSTER.losing(["n3"])), interval_s=10.0)
    for standing, nodes in (
        (Standing("ads"), ("n1", "n2", "n1", "elsewhere", "")),
        (Standing("feed", gpus_per_worker=0.5), ("n2",)),
    ):
        observed = seen(standing.name, nodes, 1000.0)
        share.grant(decide(observed, ControlState(), a_policy()), standing, observed, a_policy().slo)

    ads, feed = JobId("", "ads"), JobId("", "feed")
    assert [(one.node.name, one.lost, one.workers, one.taken) for one in share.nodes()] == [
        ("n1", False, {ads: 2}, 2.0),
        ("n2", False, {ads: 1, feed: 1}, 1.5),
        ("n3", True, {}, 0.0),
    ]


def test_a_plan_names_what_finds_no_place_and_nothing_where_nodes_are_not_told() -> None:
    def told(*nodes: str) -> list[Binding]:
        share, cluster = FleetShare(FleetTerms(CLUSTER), interval_s=10.0), 24
        for standing, at, wanted in (
            (Standing("wide", gpus_per_worker=8.0, workers_max=2), (), 2),
            (Standing("ads", workers_max=cluster), nodes, cluster),
        ):
            observed = seen(standing.name, at, 1000.0)
            policy = replace(a_policy(), override=Override(wanted, 1e9))
            policy = replace(policy, limits=replace(policy.limits, workers_max=cluster))
            share.grant(decide(observed, ControlState(), policy), standing, observed, policy.slo)
        return [one.binding for one in share.placed_plan().allotments if one.job.name == "wide"]

    assert told("n1", "n2", "n3") == [Binding.PLACE]
    assert told("n1", "n1", "n1") != [Binding.PLACE]
    assert told("n1", "", "") != [Binding.PLACE]
