"""Custom resources on a real API server, and operators that do with them what the real ones do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any
from uuid import uuid4

import pytest

from services.actuator.kubernetes_api import Conflict, KubernetesApi, NotThere, Object
from services.actuator.kubernetes_target import TargetSpec
from tests.actuator.control_plane import create, delete, pod_template, workload
from tests.waiting import eventually_async

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_OURS = "penstock-test"
_LEADERS = "leaderworkerset.sigs.k8s.io/name=ads,leaderworkerset.sigs.k8s.io/worker-index=0"
_GROUP = "ray.io/cluster=ads,ray.io/group=workers"

Operator = Callable[[KubernetesApi, str], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class CustomKind:
    """A kind as its project defines it: its name, whether it has `/scale`, and an object of it."""

    target: TargetSpec
    plural: str
    spec: dict[str, Any]
    subresources: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    operator: Operator | None = None

    def objects(self, namespace: str) -> str:
        return f"{self.target.root}/namespaces/{namespace}/{self.plural}"

    def manifest(self) -> dict[str, Any]:
        kind = {"apiVersion": self.target.api_version, "kind": self.target.kind}
        return {**kind, "metadata": {"name": "ads"}, "spec": self.spec}

    def definition(self) -> dict[str, Any]:
        group, version = self.target.api_version.split("/")
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {
            "name": version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {**anything, "properties": {"spec": anything, "status": anything}}},
            "subresources": {"status": {}, **self.subresources},
        }
        names = {"kind": self.target.kind, "plural": self.plural, "singular": self.target.kind.lower()}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{group}", "labels": {_OURS: "yes"}},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
        }


async def _lead(api: KubernetesApi, namespace: str) -> None:
    """A LeaderWorkerSet's leaders are the pods of a StatefulSet."""
    sets = f"/apis/apps/v1/namespaces/{namespace}/statefulsets"
    leaders = workload("StatefulSet", dict(pair.split("=") for pair in _LEADERS.split(",")))
    await create(api, sets, leaders)

    async def follow() -> bool:
        wanted = (await api.get(f"{LEADER_WORKER_SET.objects(namespace)}/ads"))["spec"]["replicas"]
        await api.patch(f"{sets}/ads/scale", {"spec": {"replicas": wanted}})
        return False

    await eventually_async(follow, within_s=inf, every_s=0.2)


async def _group(api: KubernetesApi, namespace: str) -> None:
    """A RayCluster's operator: within the bounds, whoever is named goes first, then whoever comes first."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    labels = dict(pair.split("=") for pair in _GROUP.split(","))

    async def follow() -> bool:
        cluster = await api.get(f"{RAY_CLUSTER.objects(namespace)}/ads")
        (group,) = cluster["spec"]["workerGroupSpecs"]
        for name in (group.get("scaleStrategy") or {}).get("workersToDelete") or []:
            await delete(api, f"{pods}/{name}", grace_s=1)
        found, _ = await api.list(pods, {"labelSelector": _GROUP})
        running = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        wanted = min(max(group["replicas"], group["minReplicas"]), group["maxReplicas"])
        for _ in range(wanted - len(running)):
            name = f"ads-workers-{uuid4().hex[:5]}"
            await create(api, pods, {**pod_template(labels), "metadata": {"name": name, "labels": labels}})
        for pod in running[: max(0, len(running) - wanted)]:
            await delete(api, f"{pods}/{pod['metadata']['name']}", grace_s=1)
        return False

    await eventually_async(follow, within_s=inf, every_s=0.2)


LEADER_WORKER_SET = CustomKind(
    TargetSpec("ads", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    "leaderworkersets",
    spec={"replicas": 0},
    subresources={
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.hpaPodSelector",
        }
    },
    status={"replicas": 0, "hpaPodSelector": _LEADERS},
    operator=_lead,
)
RAY_CLUSTER = CustomKind(
    TargetSpec("ads", "ray.io/v1", "RayCluster", "/spec/workerGroupSpecs/0/replicas", _GROUP),
    "rayclusters",
    spec={"workerGroupSpecs": [{"groupName": "workers", "replicas": 0, "minReplicas": 0, "maxReplicas": 5}]},
    operator=_group,
)
_INDEXED = {"parallelism": 1, "completions": 1, "completionMode": "Indexed"}
JOB_SET = CustomKind(
    TargetSpec(
        "ads",
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "/spec/replicatedJobs/0/template/spec/parallelism",
        "jobset.sigs.k8s.io/jobset-name=ads",
    ),
    "jobsets",
    spec={"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": _INDEXED}}]},
)


@asynccontextmanager
async def custom_target(api: KubernetesApi, namespace: str, kind: CustomKind) -> AsyncIterator[None]:
    """The kind is known to the cluster, an object of it is there, and its operator at work."""
    definition = kind.definition()
    await _define(api, definition)
    try:
        await eventually_async(lambda: _made(api, kind, namespace), within_s=60, what="the kind is served")
        if kind.status:
            await api.patch(f"{kind.objects(namespace)}/ads/status", {"status": kind.status})
        async with _at_work(kind, api, namespace):
            yield
    finally:
        await delete(api, f"{DEFINITIONS}/{definition['metadata']['name']}")


@asynccontextmanager
async def _at_work(kind: CustomKind, api: KubernetesApi, namespace: str) -> AsyncIterator[None]:
    if kind.operator is None:
        yield
        return
    operator = asyncio.create_task(kind.operator(api, namespace))
    try:
        yield
    finally:
        operator.cancel()
        await asyncio.wait([operator])
    assert operator.cancelled(), operator.exception()


async def _define(api: KubernetesApi, definition: dict[str, Any]) -> None:
    try:
        await create(api, DEFINITIONS, definition)
    except Conflict:
        found = await api.get(f"{DEFINITIONS}/{definition['metadata']['name']}")
        if _OURS not in (found["metadata"].get("labels") or {}):
            pytest.skip(f"the cluster has {definition['metadata']['name']} and an operator of its own")


async def _made(api: KubernetesApi, kind: CustomKind, namespace: str) -> Object:
    """A new kind is served, and told of, a moment after it was defined."""
    try:
        told = await api.get(kind.target.root)
        assert any(one["name"] == kind.plural for one in told["resources"])
        return await create(api, kind.objects(namespace), kind.manifest())
    except NotThere as error:
        raise AssertionError(str(error)) from error
