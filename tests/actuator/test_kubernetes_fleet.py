"""A fleet of two GPU types on a real control plane: its nodes are read, and a job moves between Deployments.

The nodes are the test's own, tainted so that nobody else's pods come, and gone afterwards.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from estimator.fleet import Standing
from services.actuator.kubernetes_access import Access, Token
from services.actuator.kubernetes_api import KubernetesApi
from services.actuator.kubernetes_place import KubernetesPlace
from services.actuator.kubernetes_pool import KubernetesPool
from services.actuator.kubernetes_target import TargetSpec
from services.actuator.typed_pool import TypedPool
from services.control.errors import Rejected
from services.control.fleet_share import FleetShare
from services.control.loop import JobLoop, Ports
from services.control.types import PoolState, WorkerPhase
from services.controller.fleet_desk import FleetDesk
from services.controller.fleet_source import node_source
from services.settings.fleet import FleetSettings, PlatformSettings
from tests.actuator.control_plane import administrator, create, delete, lacking, pod_template
from tests.actuator.rigs import ask, until
from tests.control.fakes import FakeClock, FakeLeadership, FakeMeter, FakeStore, NoForecasts, NoTelemetry
from tests.control.worlds import a_policy
from tests.waiting import eventually_async

pytestmark = pytest.mark.kubernetes

if lacking():
    pytest.skip(lacking(), allow_module_level=True)

RBAC = Path(__file__).parents[2] / "deploy" / "kubernetes" / "fleet-rbac.yaml"
WITHIN_S = 180.0
TICK_S = 1.0
PATIENT = {"within_s": 2 * WITHIN_S, "every_s": TICK_S}
"""About as fast as the clock that the jobs are told: what waits for minutes does so here too."""
GPUS = 4
"""Of each type."""


@dataclass
class TypedCluster:
    """Two nodes of a type each, and jobs with a Deployment for each type that they may use."""

    admin: KubernetesApi
    access: Access
    stack: AsyncExitStack
    name: str = field(default_factory=lambda: f"penstock-fleet-{uuid4().hex[:6]}")
    clock: FakeClock = field(default_factory=FakeClock)
    meters: dict[str, FakeMeter] = field(default_factory=dict)
    pools: dict[str, dict[str, KubernetesPool]] = field(default_factory=dict)
    loops: dict[str, JobLoop] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """What should never have been seen."""

    def kind(self, letter: str) -> str:
        return f"{self.name}-{letter}"

    async def prepare(self) -> None:
        await create(self.admin, "/api/v1/namespaces", {"metadata": {"name": self.name}})
        for letter in "ab":
            await self._make_node(self.kind(letter))

    async def _make_node(self, kind: str) -> None:
        resources = {"cpu": "32", "memory": "256Gi", "pods": "64", "nvidia.com/gpu": str(GPUS)}
        labels = {"gpu": kind, "kubernetes.io/hostname": kind, "topology.kubernetes.io/rack": "r1"}
        taint = {"key": "penstock-test", "value": self.name, "effect": "NoSchedule"}
        await create(
            self.admin,
            "/api/v1/nodes",
            {
                "metadata": {"name": kind, "labels": labels},
                "spec": {"taints": [taint]},
                "status": {"capacity": resources, "allocatable": resources},
            },
        )

    async def job(self, standing: Standing, letters: str, share: FleetShare, *, workers: int) -> None:
        name = standing.name
        self.meters[name] = FakeMeter(self.clock)
        self.pools[name] = {
            self.kind(letter): await self._pool(name, self.kind(letter)) for letter in letters
        }
        first = self.pools[name][self.kind(letters[0])]
        await first.resize(ask(workers, fence=0))
        await until(first, lambda state: state.ready == workers, f"{name}'s first workers", within_s=WITHIN_S)
        ports = Ports(
            clock=self.clock,
            leadership=FakeLeadership(1),
            meter=self.meters[name],
            forecasts=NoForecasts(),
            pool=TypedPool(self.pools[name]),
            telemetry=NoTelemetry(),
            store=FakeStore(),
            share=share,
        )
        rates = {self.kind(letter): 100.0 for letter in "ab"}
        policy = replace(a_policy(), standing=standing, lone_rates=rates)
        self.loops[name] = JobLoop(name, policy, ports, tell=lambda _: None)

    async def _pool(self, job: str, kind: str) -> KubernetesPool:
        deployment = f"{job}-{kind[-1]}"
        path = f"/apis/apps/v1/namespaces/{self.name}/deployments"
        await create(self.admin, path, deployment_on(deployment, kind, tolerates=self.name))
        place = KubernetesPlace(TargetSpec(deployment), lambda: self.access, namespace=self.name)
        return await self.stack.enter_async_context(KubernetesPool(job, place))

    async def state(self, job: str) -> PoolState:
        return await TypedPool(self.pools[job]).observe()

    async def tick(self) -> None:
        """Of every job; what is asked for is never more than there is."""
        for loop in self.loops.values():
            tick = await loop.tick()
            asked = [(await self.state(job)).by_type for job in self.loops]
            if tick.error is not None or any(
                sum(one.get(self.kind(letter), 0) for one in asked) > GPUS for letter in "ab"
            ):
                self.wrong.append(f"{tick.error} {asked}")
        self.clock.at_s += TICK_S

    async def clear(self) -> None:
        await self.stack.aclose()
        await delete(self.admin, f"/apis/apps/v1/namespaces/{self.name}/deployments")
        await delete(self.admin, f"/api/v1/namespaces/{self.name}/pods")
        for letter in "ab":
            await delete(self.admin, f"/api/v1/nodes/{self.kind(letter)}")
        await delete(self.admin, f"/api/v1/namespaces/{self.name}")
        await self.admin.close()


def deployment_on(name: str, gpu_type: str, *, tolerates: str) -> dict[str, Any]:
    labels = {"app": name}
    template = pod_template(labels)
    template["spec"] |= {
        "nodeSelector": {"gpu": gpu_type},
        "tolerations": [{"key": "penstock-test", "value": tolerates, "effect": "NoSchedule"}],
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
async def cluster() -> AsyncIterator[TypedCluster]:
    access = administrator()
    made = TypedCluster(KubernetesApi(access), access, AsyncExitStack())
    try:
        await made.prepare()
        yield made
    finally:
        await made.clear()


async def read_fleet(cluster: TypedCluster) -> FleetDesk:
    """As a controller with `fleet.platform` has it, once both nodes are ready."""
    settings = FleetSettings(platform=kubeconfig())
    desk = FleetDesk(settings, interval_s=TICK_S, status=lambda _: None, find=node_source(settings.platform))

    async def both() -> bool:
        await desk.look({})
        gpus: Mapping[str, int] = {} if desk.share is None else desk.share.terms.budget.gpus
        return all(gpus.get(cluster.kind(letter)) == GPUS for letter in "ab")

    await eventually_async(both, what="two nodes that are ready", within_s=WITHIN_S)
    return desk


def kubeconfig() -> PlatformSettings:
    return PlatformSettings(kind="kubernetes", kubeconfig=Path(os.environ["PENSTOCK_TEST_KUBECONFIG"]))


async def test_a_job_moves_from_one_typed_deployment_to_the_other_so_that_both_are_served(
    cluster: TypedCluster,
) -> None:
    desk = await read_fleet(cluster)
    assert desk.share is not None
    a, b = cluster.kind("a"), cluster.kind("b")
    await cluster.job(Standing("ads", gpu_types=(a, b), workers_max=8), "ab", desk.share, workers=2)
    await cluster.job(Standing("feed", gpu_types=(a,), workers_max=8), "a", desk.share, workers=2)
    for _ in range(2):
        await cluster.tick()
    cluster.meters["ads"].rate = cluster.meters["feed"].rate = 390.0
    least = 2

    async def moved() -> bool:
        nonlocal least
        await cluster.tick()
        ads, feed = await cluster.state("ads"), await cluster.state("feed")
        least = min(least, ads.count(WorkerPhase.READY))
        return ads.by_type == {a: 0, b: 4} and feed.by_type == {a: 4} and ads.ready == feed.ready == 4

    await eventually_async(moved, what="ads on the second type, feed on all of the first", **PATIENT)
    assert cluster.wrong == []

    ads = await cluster.state("ads")
    assert least == 2  # those on the first type trained until the new ones did
    assert {worker.node for worker in ads.workers if worker.phase is WorkerPhase.READY} == {b}


async def test_two_jobs_swap_deployments_in_a_full_cluster(cluster: TypedCluster) -> None:
    desk = await read_fleet(cluster)
    assert desk.share is not None
    a, b = cluster.kind("a"), cluster.kind("b")
    await cluster.job(Standing("ads", weight=9.0, workers_max=8), "ba", desk.share, workers=4)
    await cluster.job(Standing("feed", workers_max=8), "ab", desk.share, workers=4)
    for loop in cluster.loops.values():
        loop.policy = replace(loop.policy, lone_rates={a: 100.0, b: 50.0})
    cluster.meters["ads"].rate = cluster.meters["feed"].rate = 390.0

    async def swapped() -> bool:
        await cluster.tick()
        ads, feed = await cluster.state("ads"), await cluster.state("feed")
        return ads.by_type == {b: 0, a: 4} and feed.by_type == {a: 0, b: 4} and ads.ready == feed.ready == 4

    await eventually_async(swapped, what="each on the other's type", **PATIENT)
    assert cluster.wrong == []


async def test_a_cordoned_node_is_lost(cluster: TypedCluster) -> None:
    desk = await read_fleet(cluster)
    assert desk.share is not None
    await cluster.admin.patch(f"/api/v1/nodes/{cluster.kind('b')}", {"spec": {"unschedulable": True}})

    await desk.look({})

    gpus = desk.share.terms.budget.gpus
    assert (gpus[cluster.kind("a")], gpus[cluster.kind("b")]) == (GPUS, 0)


async def test_the_shipped_rights_are_enough_to_read_the_nodes(cluster: TypedCluster) -> None:
    text = RBAC.read_text(encoding="utf-8").replace("penstock-fleet", cluster.name)
    text = text.replace("namespace: train", f"namespace: {cluster.name}")
    root = "/apis/rbac.authorization.k8s.io/v1"
    accounts = f"/api/v1/namespaces/{cluster.name}/serviceaccounts"
    await create(cluster.admin, accounts, {"metadata": {"name": "penstock"}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await create(cluster.admin, f"{accounts}/penstock/token", asked)
    token = answer["status"]["token"]
    limited = KubernetesApi(replace(cluster.access, token=Token(lambda: (token, inf))))
    made = []
    try:
        with pytest.raises(Rejected, match=r"cannot list .*fleet-rbac\.yaml"):
            await limited.list("/api/v1/nodes", {})
        for document in yaml.safe_load_all(text):
            path = f"{root}/{document['kind'].lower()}s"
            await create(cluster.admin, path, document)
            made.append(f"{path}/{cluster.name}")

        async def listed() -> bool:
            try:
                found, _ = await limited.list("/api/v1/nodes", {})
            except Rejected:  # the API server has not heard of it yet
                return False
            return cluster.kind("a") in {node["metadata"]["name"] for node in found}

        await eventually_async(listed, what="the nodes, with the shipped rights", within_s=WITHIN_S)
    finally:
        for path in made:
            await delete(cluster.admin, path)
        await limited.close()
