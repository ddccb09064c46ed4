"""Kubernetes pools on a real control plane: the one that PENSTOCK_TEST_KUBECONFIG points at."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from services.actuator.kubernetes_access import Access, Token, find_access
from services.actuator.kubernetes_api import Conflict, KubernetesApi, NotThere, Object
from services.actuator.kubernetes_mirror import Mirror
from services.actuator.kubernetes_place import KubernetesPlace
from services.actuator.kubernetes_pool import KubernetesPool
from services.actuator.kubernetes_target import TargetSpec
from services.control.types import PoolState
from tests.actuator.rigs import until
from tests.waiting import eventually_async

RBAC = Path(__file__).parents[2] / "deploy" / "kubernetes" / "pool-rbac.yaml"
_WITHIN_S = 180.0
"""Played kubelets on a busy machine have been seen to take 90 s for six pods."""
_TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}


def lacking() -> str:
    """What keeps these tests from running here, and what to do; empty when nothing does."""
    if os.environ.get("PENSTOCK_TEST_KUBECONFIG"):
        return ""
    return "no Kubernetes cluster is named: set PENSTOCK_TEST_KUBECONFIG and `make test-kubernetes`"


def administrator() -> Access:
    return find_access(Path(os.environ["PENSTOCK_TEST_KUBECONFIG"]))


@dataclass
class PlaneRig:
    """A pool in a namespace of its own, that uses a service account with exactly our RBAC."""

    admin: KubernetesApi
    target: TargetSpec
    plural: str
    namespace: str = field(default_factory=lambda: f"penstock-{uuid4().hex[:8]}")
    token: str = ""

    @property
    def workloads(self) -> str:
        return f"{self.target.root}/namespaces/{self.namespace}/{self.plural}"

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def prepare(self) -> None:
        await create(self.admin, "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        if self.target.ref.group == "apps":
            await create(self.admin, self.workloads, workload(self.target.kind))
        for document in rbac(self.namespace, self.target, self.plural):
            await create(self.admin, self._path_of(document), document)
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/penstock/token"
        self.token = (await create(self.admin, account, _TOKEN_REQUEST))["status"]["token"]
        if self.target.kind == "Deployment":
            # Its first rollout, of no pods, is over: who is lost from now on is not lost to that.
            await eventually_async(self._is_rolled_out, within_s=_WITHIN_S, what="a Deployment of nobody")
        self.pool = self.another()

    async def _is_rolled_out(self) -> bool:
        status = (await self.admin.get(f"{self.workloads}/ads")).get("status") or {}
        return any(one.get("reason") == "NewReplicaSetAvailable" for one in status.get("conditions") or [])

    def another(self) -> KubernetesPool:
        """One more controller's pool on the same target, not open yet."""
        plane = administrator()
        access = Access(plane.server, self.namespace, plane.tls, Token(lambda: (self.token, inf)))
        return KubernetesPool("ads", KubernetesPlace(self.target, lambda: access))

    async def until(self, condition: Callable[[PoolState], bool], what: str) -> PoolState:
        return await until(self.pool, condition, what, within_s=_WITHIN_S)

    def kill(self, worker: str) -> None:
        self._killing = asyncio.ensure_future(delete(self.admin, f"{self.pods}/{worker}"))

    async def scale_by_hand(self, replicas: int) -> None:
        """As `kubectl scale` does."""
        await self.admin.patch(f"{self.workloads}/ads/scale", {"spec": {"replicas": replicas}})

    @asynccontextmanager
    async def replica_sets(self) -> AsyncIterator[list[int]]:
        """How many pods all ReplicaSets together were told to have, after each change of one of them."""
        totals: list[int] = []
        mirror = Mirror(
            self.admin,
            f"/apis/apps/v1/namespaces/{self.namespace}/replicasets",
            lambda found: int(found["spec"]["replicas"]),
            changed=lambda _before, _after: totals.append(sum(mirror.objects.values())),
        )
        following = asyncio.create_task(mirror.follow())
        await mirror.listed.wait()
        try:
            yield totals
        finally:
            following.cancel()
            await asyncio.wait([following])

    async def clear(self) -> None:
        if self.target.ref.group == "apps":
            await self.scale_by_hand(0)
        await delete(self.admin, f"{self.workloads}/ads")
        await delete(self.admin, self.pods)  # now: a pod that is slow to go keeps its GPU from the next test
        await delete(self.admin, f"/api/v1/namespaces/{self.namespace}")

    def _path_of(self, document: Object) -> str:
        group = document["apiVersion"]
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        return f"{root}/namespaces/{self.namespace}/{document['kind'].lower()}s"


def pod_template(labels: dict[str, str]) -> dict[str, Any]:
    """Pods of one GPU each."""
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "worker", "image": "penstock", "resources": limits}
    return {
        "metadata": {"labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


def workload(kind: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A Deployment or StatefulSet of which no pod is wanted yet."""
    labels = labels or {"app": "ads"}
    spec: dict[str, Any] = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": pod_template(labels),
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": "ads", "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "ads"}, "spec": spec}


def rbac(namespace: str, target: TargetSpec, plural: str) -> list[dict[str, Any]]:
    """The shipped file, for this namespace and kind."""
    text = RBAC.read_text(encoding="utf-8").replace("namespace: train", f"namespace: {namespace}")
    text = text.replace("[deployments", f"[{plural}").replace("[apps]", f"[{target.ref.group}]")
    return list(yaml.safe_load_all(text))


async def create(api: KubernetesApi, path: str, body: Mapping[str, Any]) -> Object:
    return await api._ask("POST", path, body=body)


async def delete(api: KubernetesApi, path: str, *, grace_s: int = 0) -> None:
    try:
        await api._ask("DELETE", path, body={"gracePeriodSeconds": grace_s})
    except (NotThere, Conflict):
        return


@asynccontextmanager
async def plane_rig(kind: str = "Deployment") -> AsyncIterator[PlaneRig]:
    """A rig with a target of no pods and its pool open, and nothing left of it afterwards."""
    async with prepared_rig(TargetSpec("ads", kind=kind), f"{kind.lower()}s") as rig, rig.pool:
        yield rig


@asynccontextmanager
async def prepared_rig(target: TargetSpec, plural: str) -> AsyncIterator[PlaneRig]:
    """The same with its pool not open yet: a custom target is made by whoever uses it."""
    admin = KubernetesApi(administrator())
    rig = PlaneRig(admin, target, plural)
    try:
        await rig.prepare()
        yield rig
    finally:
        await rig.clear()
        await admin.close()
