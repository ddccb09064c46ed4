"""Which departures are losses: every one that no smaller size explains."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from services.actuator.kubernetes_pods import Pod
from services.actuator.kubernetes_roster import Roster
from services.actuator.moment import Moment
from services.control.types import WorkerPhase


class World:
    """Pods that come and go as Kubernetes would have it, and a roster that is told."""

    def __init__(self) -> None:
        self.at_s = 1_000.0
        self.roster = Roster(lambda: Moment(self.at_s, self.at_s))
        self.pods: list[Pod] = []
        self.made = 0

    def start(self) -> None:
        self.made += 1
        pod = a_pod(f"ads-{self.made}", self.at_s)
        ready = replace(pod, phase=WorkerPhase.READY)
        self.roster.changed(None, pod)
        self.roster.changed(pod, ready)
        self.pods.append(ready)

    def leave(self) -> None:
        pod = self.pods.pop()
        self.roster.changed(pod, replace(pod, phase=WorkerPhase.DRAINING))
        self.roster.changed(replace(pod, phase=WorkerPhase.DRAINING), None)

    def settle(self, size: int) -> None:
        while len(self.pods) < size:
            self.start()
        while len(self.pods) > size:
            self.leave()

    def failures(self) -> int:
        self.at_s += 2.0
        return self.roster.failures(rolling=False)


def a_pod(name: str, created_at_s: float) -> Pod:
    return Pod(
        uid=name,
        name=name,
        phase=WorkerPhase.STARTING,
        ended=False,
        created_at_s=created_at_s,
        restarts=0,
        node="",
        gpu_type="",
        deletion_cost="",
        grace_s=30.0,
        why="",
    )


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=12))
def test_losses_are_counted_and_leavers_are_not(steps: list[tuple[int, int]]) -> None:
    """Each step: a size is asked for and reached, then so many pods are lost and replaced."""
    world, lost = World(), 0
    for size, losses in steps:
        world.roster.asked(size)
        world.settle(size)
        assert world.failures() == lost
        for _ in range(min(losses, size)):
            world.leave()
            lost += 1
            world.start()
        assert world.failures() == lost


def test_a_smaller_size_that_is_heard_of_after_its_leavers_explains_them() -> None:
    world = World()
    world.roster.asked(3)
    world.settle(3)

    world.leave()
    world.leave()
    world.at_s += 0.5
    world.roster.asked(1)

    assert world.failures() == 0


def test_leavers_of_a_size_that_grew_again_at_once_are_no_losses() -> None:
    world = World()
    world.roster.asked(3)
    world.settle(3)
    world.roster.asked(1)
    world.settle(1)
    world.roster.asked(3)
    world.settle(3)

    assert world.failures() == 0


def test_pods_that_a_rollout_replaces_are_no_losses() -> None:
    world = World()
    world.roster.asked(2)
    world.settle(2)
    world.leave()
    world.at_s += 2.0

    assert world.roster.failures(rolling=True) == 0


def test_the_last_pod_that_a_rollout_replaced_is_no_loss_though_it_is_judged_after_it() -> None:
    world = World()
    world.roster.asked(2)
    world.settle(2)
    world.roster.rolls()
    world.at_s += 0.2
    world.leave()
    world.start()

    assert world.failures() == 0
    world.at_s += 10.0
    world.leave()
    world.start()
    assert world.failures() == 1, "one that goes long after it is"


def test_a_lead_time_counts_from_the_size_that_asked_for_the_pod() -> None:
    world = World()
    world.roster.asked(1)
    world.at_s += 5.0
    pod = a_pod("ads-1", world.at_s)
    world.roster.changed(None, pod)
    world.at_s += 7.0
    world.roster.changed(pod, replace(pod, phase=WorkerPhase.READY))

    (start,) = world.roster.lead_times.recent()
    assert (start.worker, start.asked_at_s, start.took_s) == ("ads-1", 1_000.0, 12.0)


def test_a_pod_that_was_ready_when_first_seen_tells_no_lead_time() -> None:
    world = World()
    world.roster.changed(None, replace(a_pod("ads-1", 900.0), phase=WorkerPhase.READY))

    assert world.roster.lead_times.recent() == ()
