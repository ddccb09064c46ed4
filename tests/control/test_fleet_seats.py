"""A pool that takes the word for nodes is told where its workers should come, and only when it grows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from estimator.fleet import Budget, Node, Standing
from services.control.decide import decide
from services.control.fleet_seats import LOOKS
from services.control.fleet_share import FleetShare, FleetTerms, Grant
from services.control.types import ControlState, Override
from tests.control.fakes import FakePool
from tests.control.test_fleet_cells import seen
from tests.control.test_fleet_share import Fleet
from tests.control.worlds import a_policy

CLUSTER = Budget((Node("n1", "a100", 4), Node("n2", "a100", 4), Node("n3", "a100", 4)))


class Words:
    """Jobs that speak to one fleet."""

    def __init__(self, budget: Budget = CLUSTER) -> None:
        self.share = FleetShare(FleetTerms(budget), interval_s=10.0)

    def __call__(
        self,
        standing: Standing,
        nodes: tuple[str, ...],
        wanted: int,
        *,
        at_s: float = 1000.0,
        places: bool = True,
    ) -> Grant | None:
        """What a job is told that has a worker on each of the nodes and wants so many."""
        observed = replace(seen(standing.name, nodes, at_s), can_place=places)
        policy = replace(a_policy(), override=Override(wanted, 1e9))
        decision = decide(observed, ControlState(planned=len(nodes)), policy)
        return self.share.grant(decision, standing, observed, policy.slo)

    def settled(
        self, standing: Standing, nodes: tuple[str, ...], wanted: int, *, places: bool = True
    ) -> Counter[str]:
        """The nodes that it is told once the first interval is over."""
        grant = self(standing, nodes, wanted, at_s=1020.0, places=places)
        return Counter() if grant is None else Counter(grant.nodes)


def test_workers_of_whole_gpus_are_packed_beside_those_that_are_there() -> None:
    tell = Words()
    tell(Standing("other"), ("n2", "n2"), 2)
    tell(Standing("ads"), ("n1",), 1)

    assert tell.settled(Standing("ads"), ("n1",), 5) == {"n2": 2, "n1": 3}


def test_no_node_is_named_that_a_guarantee_needs_whole() -> None:
    tell, wide = Words(), Standing("wide", guaranteed=2, gpus_per_worker=4.0)
    tell(wide, (), 0)
    tell(Standing("ads"), ("n1",), 1)

    assert tell.settled(Standing("ads"), ("n1",), 6) == {"n1": 4}, "the fifth and sixth are told none"


def test_parts_of_a_gpu_are_spread() -> None:
    half = Standing("ads", gpus_per_worker=0.5)
    tell = Words()
    tell(Standing("other"), ("n1", "n1", "n2", "n3"), 4)
    tell(half, ("n2",), 1)

    assert tell.settled(half, ("n2",), 4) == {"n2": 2, "n3": 2}


def test_a_pool_that_cannot_be_told_is_told_nothing() -> None:
    tell = Words()
    tell(Standing("ads"), ("n1",), 1)

    assert tell.settled(Standing("ads"), ("n1",), 5, places=False) == {}


def test_a_pool_that_stays_or_shrinks_is_told_nothing() -> None:
    tell, nodes = Words(), ("n1", "n1", "n1")
    tell(Standing("ads"), nodes, 3)

    assert tell.settled(Standing("ads"), nodes, 3) == {}
    assert tell.settled(Standing("ads"), nodes, 2) == {}


def test_no_more_are_told_in_an_interval_than_there_is_time_for() -> None:
    large = Budget(tuple(Node(f"n{number}", "a100", 4) for number in range(LOOKS // 3)))
    tell, ads, feed = Words(large), Standing("ads"), Standing("feed")
    tell(ads, ("n1",), 1)
    tell(feed, ("n2",), 1)

    assert tell.settled(ads, ("n1",), 3).total() == 3  # one is there, and two come
    assert tell.settled(feed, ("n2",), 4).total() == 2  # one comes, and two have to find their own
    grant = tell(feed, ("n2",), 4, at_s=1030.0)
    assert grant is not None
    assert len(grant.nodes) == 4


def test_where_more_is_guaranteed_than_there_is_the_platform_chooses() -> None:
    tell = Words()
    tell(Standing("wide", guaranteed=20), (), 0)
    tell(Standing("ads"), ("n1",), 1)

    assert tell.settled(Standing("ads"), ("n1",), 5) == {}


async def test_the_nodes_reach_the_pool_with_the_resize() -> None:
    fleet = Fleet(8, Standing("ads"))
    pool: FakePool = fleet.pools["ads"]
    pool.able = replace(pool.able, places=True)
    fleet.wants(ads=450)

    await fleet.ticks(3)

    assert [(resize.workers, Counter(resize.nodes)) for resize in pool.asked] == [(5, {"a100-0": 4})]


def test_a_decision_that_does_not_grow_names_no_nodes() -> None:
    observed = replace(seen("ads", ("n1", "n1", "n1"), 1000.0), nodes=("n1",) * 5)

    def nodes(wanted: int) -> tuple[str, ...]:
        policy = replace(a_policy(), override=Override(wanted, 1e9))
        decision = decide(observed, ControlState(planned=3), policy)
        assert decision.resize is not None
        return decision.resize.nodes

    assert nodes(5) == ("n1",) * 5
    assert nodes(1) == ()
