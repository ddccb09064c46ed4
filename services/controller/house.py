"""A Kubernetes cluster in the words of the fleet's decision: who may come where, and who is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from estimator.fleet import Budget, InvalidFleet, JobId, Standing
from estimator.fleet.arrivals import STRANGER, Arrival, Floor
from estimator.fleet.guarantees import homes_of
from estimator.fleet.layout import Resident
from estimator.fleet.machines import Amounts, Machine

if TYPE_CHECKING:
    from services.actuator.kubernetes_cluster import KubernetesCluster
    from services.actuator.kubernetes_gate import PlacedPod


@dataclass(frozen=True, slots=True)
class House:
    """What the fleet says of those who may come: the nodes, the jobs, and what is lent."""

    budget: Budget
    jobs: Mapping[str, Standing]
    """By name."""
    lent: Mapping[JobId, int]


def arrivals_of(waiting: Iterable[PlacedPod], cluster: KubernetesCluster, house: House) -> list[Arrival]:
    """Pods that wait, as the choice of a node sees them."""
    from services.actuator.kubernetes_suits import suits  # noqa: PLC0415 - an extra

    faces = [node.face for node in cluster.nodes()]
    return [
        Arrival(
            pod.uid,
            _needs(pod, house),
            frozenset(face.name for face in faces if suits(face, pod.spec)),
            house.jobs[pod.job].id if pod.job in house.jobs else None,
        )
        for pod in waiting
    ]


def floor_of(pods: Iterable[PlacedPod], cluster: KubernetesCluster, house: House) -> Floor:
    """The nodes of a cluster, and who is on them."""
    budget, standings = house.budget, {job.id: job for job in house.jobs.values()}
    kinds = {node.name: node.gpu_type for node in budget.there}
    machines = {
        node.face.name: Machine(
            node.face.name,
            node.room,
            price=budget.price(kinds[node.face.name]) if node.face.name in kinds else 0.0,
        )
        for node in cluster.nodes()
    }
    residents: list[Resident] = []
    for pod in pods:
        if pod.node in machines:
            needs = _needs(pod, house)
            machines[pod.node] = machines[pod.node].with_one(needs)
            residents += _residents(pod, needs, house)
    try:
        homes = homes_of(standings.values(), budget)
    except InvalidFleet:
        homes = {}  # more is guaranteed than there is: the desk tells it, and nothing can be kept
    return Floor(budget, machines, standings, homes, residents, house.lent)


def _residents(pod: PlacedPod, needs: Amounts, house: House) -> list[Resident]:
    if pod.job in house.jobs:
        return [Resident(house.jobs[pod.job].id, pod.node, 1)]
    return [Resident(STRANGER, pod.node, max(1, round(needs.gpus)))] if needs.gpus else []


def _needs(pod: PlacedPod, house: House) -> Amounts:
    """What its node gives up for it. A part of a GPU is no resource of Kubernetes': the job tells it."""
    job = house.jobs.get(pod.job)
    share = job.gpus_per_worker if job is not None and job.gpus_per_worker < 1 else 0.0
    return pod.needs if pod.needs.gpus or not share else replace(pod.needs, gpus=share)
