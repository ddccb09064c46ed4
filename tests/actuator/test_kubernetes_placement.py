"""Pods that wait at the gate, on a real control plane: they come where they were told, by the shipped rights.

The nodes are the test's own, tainted so that nobody else's pods come, and gone afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from estimator.fleet import Budget, Node, Standing
from services.actuator.kubernetes_access import Access, Token
from services.actuator.kubernetes_api import KubernetesApi, Object
from services.actuator.kubernetes_cluster import KubernetesCluster
from services.actuator.kubernetes_gate import GATE, JOB_LABEL, NODE_NOTE
from services.control.errors import Rejected
from services.controller.house import House
from services.controller.usher import Usher
from tests.actuator.control_plane import administrator, create, delete, lacking, workload
from tests.waiting import eventually_async

pytestmark = pytest.mark.kubernetes

if lacking():
    pytest.skip(lacking(), allow_module_level=True)

SHIPPED = Path(__file__).parents[2] / "deploy" / "kubernetes"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
WITHIN_S = 180.0
GPUS = 4


@dataclass
class GatedCluster:
    """Three nodes, workloads whose pods wait, and an usher with a service account of the shipped rights."""

    admin: KubernetesApi
    access: Access
    name: str = field(default_factory=lambda: f"penstock-place-{uuid4().hex[:6]}")
    jobs: dict[str, Standing] = field(default_factory=dict)
    within_s: float = 5.0
    made: list[str] = field(default_factory=list)
    """Paths of what belongs to no namespace."""

    @property
    def nodes(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(3)]

    def __post_init__(self) -> None:
        self.token = ""
        self.cluster = KubernetesCluster(self._limited(), [""])

    def _limited(self) -> Access:
        """As the service account."""
        return replace(self.access, namespace=self.name, token=Token(lambda: (self.token, inf)))

    async def prepare(self) -> None:
        await create(self.admin, "/api/v1/namespaces", {"metadata": {"name": self.name}})
        for name in self.nodes:
            await self._make_node(name)
        accounts = f"/api/v1/namespaces/{self.name}/serviceaccounts"
        await create(self.admin, accounts, {"metadata": {"name": "penstock"}})
        await self._grant()
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = await create(self.admin, f"{accounts}/penstock/token", asked)
        self.token = answer["status"]["token"]
        await eventually_async(self._allowed, what="the rights are known", within_s=WITHIN_S)
        await self.cluster.open()
        self.usher = Usher(self.cluster, self._house, within_s=self.within_s)

    async def _allowed(self) -> bool:
        api = KubernetesApi(self._limited())
        try:
            await api.list("/api/v1/nodes", {})
            await api.list("/api/v1/pods", {})
        except Rejected:  # the API server has not heard of it yet
            return False
        finally:
            await api.close()
        return True

    async def _make_node(self, name: str) -> None:
        resources = {"cpu": "16", "memory": "64Gi", "pods": "64", "nvidia.com/gpu": str(GPUS)}
        labels = {"gpu": self.name, "kubernetes.io/hostname": name}
        taint = {"key": "penstock-test", "value": self.name, "effect": "NoSchedule"}
        ready = {"type": "Ready", "status": "True"}
        status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [taint]}, "status": status}
        await create(self.admin, "/api/v1/nodes", body)
        self.made.append(f"/api/v1/nodes/{name}")

    async def _grant(self) -> None:
        """The files as they are, for this namespace; of the pool's rights, with what the overlay adds."""
        for file in ("fleet-rbac.yaml", "pool-rbac.yaml"):
            text = (SHIPPED / file).read_text(encoding="utf-8").replace("penstock-fleet", self.name)
            text = text.replace("namespace: train", f"namespace: {self.name}")
            for document in yaml.safe_load_all(text.replace("patch]", "patch, delete]")):
                plural = f"{document['kind'].lower()}s"
                if document["kind"].startswith("Cluster"):
                    await create(self.admin, f"{RIGHTS}/{plural}", document)
                    self.made.append(f"{RIGHTS}/{plural}/{self.name}")
                elif document["kind"] != "ServiceAccount":
                    await create(self.admin, f"{RIGHTS}/namespaces/{self.name}/{plural}", document)

    def _house(self) -> House:
        return House(Budget(tuple(Node(name, "a100", GPUS) for name in self.nodes)), self.jobs, {})

    async def deploy(
        self, name: str, replicas: int, *, kind: str = "Deployment", gpus: int = 1, **spec: Any
    ) -> None:
        labels = {"app": name, JOB_LABEL: name}
        made = workload(kind, labels)
        made["metadata"]["name"] = name
        pod = made["spec"]["template"]["spec"]
        pod |= {
            "nodeSelector": {"gpu": self.name},
            "tolerations": [{"key": "penstock-test", "value": self.name, "effect": "NoSchedule"}],
            "schedulingGates": [{"name": GATE}],
            **spec,
        }
        resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "1", "memory": "2Gi"}}
        pod["containers"][0]["resources"] = resources
        made["spec"]["replicas"] = replicas
        path = f"/apis/apps/v1/namespaces/{self.name}/{kind.lower()}s"
        await create(self.admin, path, made)

    async def pods(self, job: str) -> list[Object]:
        path = f"/api/v1/namespaces/{self.name}/pods"
        found, _ = await self.admin.list(path, {"labelSelector": f"app={job}"})
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    async def until(self, job: str, condition: Callable[[Counter[str]], bool], what: str) -> Counter[str]:
        """Tend the gate until the nodes of a job's pods are as they should be."""

        async def held() -> Counter[str]:
            await self.usher.tend()
            nodes = Counter(pod["spec"].get("nodeName", "") for pod in await self.pods(job))
            assert condition(nodes), f"{nodes} {self.usher.trouble}"
            return nodes

        found: Counter[str] = await eventually_async(held, what=what, within_s=WITHIN_S)
        return found

    async def clear(self) -> None:
        await self.cluster.close()
        for plural in ("deployments", "statefulsets"):
            await delete(self.admin, f"/apis/apps/v1/namespaces/{self.name}/{plural}")
        await delete(self.admin, f"/api/v1/namespaces/{self.name}/pods")
        for path in self.made:
            await delete(self.admin, path)
        await delete(self.admin, f"/api/v1/namespaces/{self.name}")
        await self.admin.close()


@pytest.fixture
async def cluster() -> AsyncIterator[GatedCluster]:
    access = administrator()
    made = GatedCluster(KubernetesApi(access), access)
    try:
        await made.prepare()
        yield made
    finally:
        await made.clear()


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
async def test_gated_pods_land_on_the_nodes_that_were_chosen(cluster: GatedCluster, kind: str) -> None:
    await cluster.deploy("ads", 6, kind=kind)

    nodes = await cluster.until("ads", lambda nodes: nodes.total() == 6 and not nodes[""], "all have a node")

    assert sorted(nodes.values()) == [2, 4]  # packed: the scheduler alone would have spread them
    assert not cluster.usher.trouble
    for pod in await cluster.pods("ads"):
        assert pod["metadata"]["annotations"][NODE_NOTE] == pod["spec"]["nodeName"]


async def test_a_guarantees_node_stays_whole_for_it(cluster: GatedCluster) -> None:
    cluster.jobs = {
        "ads": Standing("ads"),
        "wide": Standing("wide", guaranteed=2, gpus_per_worker=float(GPUS)),
    }
    cluster.usher = Usher(cluster.cluster, cluster._house, within_s=10 * WITHIN_S)
    await cluster.deploy("ads", 6)
    nodes = await cluster.until("ads", lambda nodes: nodes == {"": 2, **_with(nodes, GPUS)}, "four come")
    await cluster.deploy("wide", 2, gpus=GPUS)

    wide = await cluster.until("wide", lambda nodes: sum(nodes.values()) == 2 and not nodes[""], "both wide")

    assert set(wide) == set(cluster.nodes) - set(nodes)


def _with(nodes: Counter[str], count: int) -> dict[str, int]:
    return {name: count for name in nodes if name}


async def test_a_pod_that_fits_nowhere_is_left_to_the_scheduler_in_time(cluster: GatedCluster) -> None:
    await cluster.deploy("ads", 1, gpus=GPUS + 1)

    async def told() -> bool:
        await cluster.usher.tend()
        told = [
            one.get("reason")
            for pod in await cluster.pods("ads")
            for one in (pod.get("status") or {}).get("conditions") or []
        ]
        return "Unschedulable" in told

    await eventually_async(told, what="the scheduler says why it cannot", within_s=WITHIN_S)


async def test_a_pod_that_the_chosen_node_does_not_take_is_made_anew(cluster: GatedCluster) -> None:
    """The scheduler keeps these apart, which placement does not look at: it learns not to choose."""
    apart = {
        "labelSelector": {"matchLabels": {"app": "ads"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    await cluster.deploy("ads", 2, affinity={"podAntiAffinity": terms})

    def on_two(nodes: Counter[str]) -> bool:
        return sum(nodes.values()) == 2 and len(nodes) == 2 and not nodes[""]

    await cluster.until("ads", on_two, "each on a node of its own")
