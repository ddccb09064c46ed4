"""On a shared GPU the worker without a guarantee yields when it slows down one that has it."""

from __future__ import annotations

from dataclasses import replace

from estimator.fleet import Budget, Standing
from estimator.throughput import StepTimes
from services.control.decide import decide
from services.control.fleet_share import FleetShare, FleetTerms, Grant
from services.control.neighbours import AWAY_S, Neighbours
from services.control.types import (
    ControlState,
    Observation,
    Override,
    PoolState,
    Worker,
    WorkerPhase,
    WorkerReport,
)
from tests.control.worlds import a_policy, an_observation

OWNER = Standing("owner", guaranteed=2, gpus_per_worker=0.5)
GUEST = Standing("guest", gpus_per_worker=0.5)


def seen(job: str, *nodes: str, step_s: float = 0.1, at_s: float = 1000.0) -> Observation:
    """A worker on each of the nodes, whose steps compute for so long."""
    workers = tuple(
        Worker(f"{job}-{node}", WorkerPhase.READY, float(age), node=node) for age, node in enumerate(nodes)
    )
    reports = tuple(
        WorkerReport(worker.id, at_s, 1, 0.04, 100.0, steps=StepTimes(0.01, step_s, 0.0))
        for worker in workers
    )
    observed = an_observation(rate=50.0 * len(nodes), pool=PoolState(len(nodes), workers), reports=reports)
    return replace(observed, job=job, at_s=at_s, traffic=replace(observed.traffic, at_s=at_s))


def tell(neighbours: Neighbours, standing: Standing, *nodes: str, step_s: float = 0.1) -> None:
    observed = seen(standing.name, *nodes, step_s=step_s)
    neighbours.tell(standing.name, standing, observed.pool.workers, observed.reports)


def test_who_slows_a_guaranteed_worker_by_five_per_cent_yields_on_that_node_alone() -> None:
    neighbours = Neighbours()
    tell(neighbours, OWNER, "n1", "n2")
    tell(neighbours, GUEST, "n1", "n3")

    tell(neighbours, OWNER, "n1", "n2", step_s=0.104)
    assert neighbours.yielding("guest", now_s=0.0) == ()

    tell(neighbours, OWNER, "n1", "n2", step_s=0.106)
    assert neighbours.yielding("guest", now_s=0.0) == ("guest-n1",)
    assert neighbours.yielding("owner", now_s=0.0) == ()
    assert not neighbours.may_grow("guest", now_s=AWAY_S - 1.0)
    assert neighbours.may_grow("guest", now_s=AWAY_S)


def test_beside_one_that_was_never_measured_alone_nobody_stays() -> None:
    neighbours = Neighbours()
    tell(neighbours, GUEST, "n1")
    tell(neighbours, OWNER, "n1")

    assert neighbours.yielding("guest", now_s=0.0) == ("guest-n1",)


def test_one_that_was_never_alone_is_held_against_its_jobs_others() -> None:
    neighbours = Neighbours()
    tell(neighbours, OWNER, "n1")
    tell(neighbours, GUEST, "n2")

    tell(neighbours, OWNER, "n1", "n2", step_s=0.103)
    assert neighbours.yielding("guest", now_s=0.0) == ()

    tell(neighbours, OWNER, "n1", "n2", step_s=0.12)
    assert neighbours.yielding("guest", now_s=0.0) == ("guest-n2",)


def test_a_report_that_is_missing_makes_nobody_yield() -> None:
    neighbours = Neighbours()
    tell(neighbours, OWNER, "n1")
    tell(neighbours, GUEST, "n1")
    neighbours.tell("owner", OWNER, seen("owner", "n1").pool.workers)

    tell(neighbours, OWNER, "n1", step_s=0.103)

    assert neighbours.yielding("guest", now_s=0.0) == ()


def test_workers_beyond_a_guarantee_are_guests_too_and_the_guaranteed_never_yield() -> None:
    neighbours, some = Neighbours(), replace(GUEST, guaranteed=1)
    tell(neighbours, OWNER, "n1", "n2")
    tell(neighbours, some, "n2", "n1")  # the first is its guarantee

    tell(neighbours, OWNER, "n1", "n2", step_s=0.2)

    assert neighbours.yielding("guest", now_s=0.0) == ("guest-n1",)
    assert neighbours.yielding("owner", now_s=0.0) == ()


def test_a_job_is_not_disturbed_by_its_own() -> None:
    neighbours, one = Neighbours(), replace(OWNER, guaranteed=1)
    for _ in range(20):  # its own beside it is how it is without company
        tell(neighbours, one, "n1", "n1", step_s=0.2)
    tell(neighbours, GUEST, "n1")

    tell(neighbours, one, "n1", "n1", step_s=0.205)
    assert neighbours.yielding("guest", now_s=0.0) == ()

    tell(neighbours, one, "n1", "n1", step_s=0.3)
    assert neighbours.yielding("guest", now_s=0.0) == ("guest-n1",)
    assert neighbours.yielding("owner", now_s=0.0) == ()


def test_workers_of_whole_gpus_have_no_neighbours() -> None:
    neighbours = Neighbours()
    tell(neighbours, replace(GUEST, gpus_per_worker=1.0), "n1")
    tell(neighbours, replace(OWNER, gpus_per_worker=1.0), "n1")

    assert neighbours.yielding("guest", now_s=0.0) == ()


def test_the_one_that_disturbs_is_the_one_that_leaves() -> None:
    share = FleetShare(FleetTerms(Budget.counted({"a100": 4})), interval_s=10.0)
    policy = a_policy()

    def word(standing: Standing, observed: Observation) -> Grant | None:
        decision = decide(observed, ControlState(planned=observed.pool.requested), policy)
        return share.grant(decision, standing, observed, policy.slo)

    word(OWNER, seen("owner", "n1"))
    word(GUEST, seen("guest", "n1", "n2"))
    word(OWNER, seen("owner", "n1", step_s=0.12, at_s=1020.0))
    observed = seen("guest", "n1", "n2", at_s=1020.0)
    grant = word(GUEST, observed)

    assert grant == Grant(1, leave=("guest-n1",))
    held = replace(observed, fleet_max=grant.workers, yielding=grant.leave)
    decision = decide(held, ControlState(planned=2), policy)
    assert decision.resize is not None
    assert decision.resize.remove == ("guest-n1",)


def test_one_that_had_to_yield_may_still_have_what_it_is_guaranteed() -> None:
    share = FleetShare(FleetTerms(Budget.counted({"a100": 4})), interval_s=10.0)
    policy, some = a_policy(), replace(GUEST, guaranteed=2)

    def word(standing: Standing, observed: Observation, wanted: int) -> Grant | None:
        by_hand = replace(policy, override=Override(wanted, 1e9))
        decision = decide(observed, ControlState(planned=observed.pool.requested), by_hand)
        return share.grant(decision, standing, observed, policy.slo)

    word(OWNER, seen("owner", "n1"), 1)
    word(some, seen("guest", "n3", "n2", "n1"), 3)
    word(OWNER, seen("owner", "n1", step_s=0.12, at_s=1020.0), 1)
    assert word(some, seen("guest", "n3", "n2", "n1", at_s=1020.0), 3) == Grant(2, leave=("guest-n1",))

    word(some, seen("guest", "n3", at_s=1030.0), 1)  # it needs less for a while
    grown = word(some, seen("guest", "n3", at_s=1040.0), 4)

    assert grown == Grant(2), "its guarantee, and nothing beyond it yet"


def test_the_batch_pool_yields_as_any_guest_does() -> None:
    share = FleetShare(FleetTerms(Budget.counted({"a100": 4})), interval_s=10.0)
    policy = a_policy()

    def owners(step_s: float, at_s: float) -> None:
        observed = seen("owner", "n1", step_s=step_s, at_s=at_s)
        decision = decide(observed, ControlState(planned=1), policy)
        share.grant(decision, OWNER, observed, policy.slo)

    batch = seen("batch", "n1", "n2").pool
    owners(0.1, 1000.0)
    assert share.beside(batch, gpus_per_worker=0.5) is None
    owners(0.12, 1010.0)

    assert share.beside(batch, gpus_per_worker=0.5) == Grant(1, leave=("batch-n1",))

    smaller = seen("batch", "n2").pool
    owners(0.1, 1020.0)
    assert share.beside(smaller, gpus_per_worker=0.5) == Grant(1), "it does not come back at once"
    owners(0.1, 1010.0 + AWAY_S)
    assert share.beside(smaller, gpus_per_worker=0.5) is None
