"""A guarantee of several GPUs a worker: what the platform scattered over its cells is given up."""

from __future__ import annotations

from dataclasses import replace

from estimator.fleet import Budget, JobId, Node, Standing
from services.control.decide import decide
from services.control.fleet_cells import CELLS_EVERY_S, Sitting, in_the_way
from services.control.fleet_share import FleetShare, FleetTerms, Grant
from services.control.types import ControlState, Observation, PoolState, Worker, WorkerPhase
from tests.control.worlds import a_policy, an_observation

CLUSTER = Budget((Node("n1", "a100", 4), Node("n2", "a100", 4)))
WIDE = JobId("", "wide")


def sitting(name: str, *nodes: str, guaranteed: int = 0, gpus: float = 1.0, weight: float = 1.0) -> Sitting:
    workers = tuple(
        Worker(f"{name}-{place}", WorkerPhase.READY, float(place), node=node)
        for place, node in enumerate(nodes)
    )
    return Sitting(JobId("", name), weight, guaranteed, "a100", gpus, workers)


def test_what_stands_in_the_cells_of_a_guarantee_goes_and_no_more_than_it_takes() -> None:
    wide = sitting("wide", guaranteed=1, gpus=4.0)

    scattered = in_the_way(CLUSTER, [wide, sitting("surge", "n1", "n1", "n2")])
    packed = in_the_way(CLUSTER, [wide, sitting("surge", "n1", "n1", "n1")])

    assert scattered == {JobId("", "surge"): ("surge-2",)}
    assert packed == {}


def test_the_lightest_go_first_and_what_is_guaranteed_itself_stays() -> None:
    wide = sitting("wide", guaranteed=1, gpus=4.0)
    owner, light = sitting("owner", "n1", guaranteed=1), sitting("light", "n2", weight=0.5)

    assert in_the_way(CLUSTER, [wide, owner, light]) == {light.job: ("light-0",)}
    assert in_the_way(CLUSTER, [wide, sitting("owner", "n1", "n2", guaranteed=2)]) == {}


def test_a_guarantee_that_runs_already_or_of_single_gpus_is_in_nobodys_way() -> None:
    running = sitting("wide", "n1", guaranteed=1, gpus=4.0)
    single = sitting("single", guaranteed=4)

    assert in_the_way(CLUSTER, [running, sitting("surge", "n2", "n2")]) == {}
    assert in_the_way(CLUSTER, [single, sitting("surge", "n1", "n2")]) == {}


def test_workers_of_which_no_node_is_told_are_in_nobodys_way() -> None:
    assert in_the_way(CLUSTER, [sitting("wide", guaranteed=1, gpus=4.0), sitting("surge", "", "")]) == {}


def test_a_controller_that_takes_over_asks_the_same_to_leave() -> None:
    """All of it is worked out from what the platform shows."""
    policy = a_policy()

    def leaves() -> Grant | None:
        share = FleetShare(FleetTerms(CLUSTER), interval_s=10.0)
        grant = None
        for at_s in (1000.0, 1000.0 + CELLS_EVERY_S):
            for standing, nodes in (
                (Standing("wide", guaranteed=1, gpus_per_worker=4.0), ()),
                (Standing("surge"), ("n1", "n1", "n2")),
            ):
                observed = seen(standing.name, nodes, at_s)
                decision = decide(observed, ControlState(planned=len(nodes)), policy)
                grant = share.grant(decision, standing, observed, policy.slo)
        return grant

    order = ("surge-2", "surge-1", "surge-0")  # the emptier node first
    assert leaves() == leaves() == Grant(2, leave=("surge-2",), order=order)


def seen(job: str, nodes: tuple[str, ...], at_s: float) -> Observation:
    workers = tuple(
        Worker(f"{job}-{place}", WorkerPhase.READY, float(place), node=node)
        for place, node in enumerate(nodes)
    )
    observed = an_observation(rate=95.0 * len(nodes), pool=PoolState(len(nodes), workers))
    return replace(observed, job=job, at_s=at_s, traffic=replace(observed.traffic, at_s=at_s))
