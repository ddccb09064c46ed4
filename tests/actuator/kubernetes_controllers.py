"""What Kubernetes' controllers, scheduler and kubelets do with the objects of a cluster, quickly."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.actuator.kubernetes_store import Store, Thing, stamp

NAMESPACE = "train"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES = "/api/v1/nodes"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
STATEFUL_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
COST = "controller.kubernetes.io/pod-deletion-cost"


@dataclass
class Controllers:
    """Bring the pods of every workload to its size. Each step is a write of its own."""

    store: Store
    gpus: int = 24
    ready_after_s: float = 0.03
    gone_after_s: float = 0.03
    quota: int = 1000
    """Pods beyond this number are not even made."""
    never_ready: bool = False
    shunned: set[str] = field(default_factory=set)
    """Nodes that the scheduler does not use, for reasons of its own."""
    _order: dict[str, int] = field(default_factory=dict)

    def reconcile(self) -> None:
        for collection in (DEPLOYMENTS, STATEFUL_SETS):
            for workload in list(self.store.things.get(collection, {}).values()):
                self._size(collection, workload)
        self._schedule()

    def lose(self, pod: str) -> None:
        """A pod goes without anybody having asked for fewer."""
        self.store.delete(PODS, pod)
        self.reconcile()

    def crash(self, pod: str, *, code: int = 1) -> None:
        """Its container ended, and waits to be started again."""
        broken = copy.deepcopy(self.store.get(PODS, pod))
        broken["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        broken["status"]["containerStatuses"] = [
            {
                "restartCount": 1,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": code}},
            }
        ]
        self.store.put(PODS, broken)

    def _size(self, collection: str, workload: Thing) -> None:
        name, wanted = workload["metadata"]["name"], workload["spec"]["replicas"]
        ordered = collection == STATEFUL_SETS
        pods = [pod for pod in self._live() if pod["metadata"]["labels"]["app"] == name]
        for _ in range(wanted - len(pods)):
            if len(self._live()) >= self.quota:
                self._refuse(collection, workload)
                break
            self._make(workload, {pod["metadata"]["name"] for pod in self._live()}, ordered=ordered)
        rank = _ordinal if ordered else self._rank
        for pod in sorted(pods, key=rank)[: max(0, len(pods) - wanted)]:
            self._dismiss(pod)

    def _live(self) -> list[Thing]:
        return [
            pod
            for pod in self.store.things.get(PODS, {}).values()
            if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") != "Failed"
        ]

    def _rank(self, pod: Thing) -> tuple[bool, int, int]:
        """Of a ReplicaSet's pods the first goes first: not ready, cheapest, youngest."""
        cost = int((pod["metadata"].get("annotations") or {}).get(COST, 0))
        return _ready(pod), cost, -self._order[pod["metadata"]["name"]]

    def _make(self, workload: Thing, taken: set[str], *, ordered: bool) -> None:
        name = workload["metadata"]["name"]
        free = (f"{name}-{number}" for number in range(10_000))
        pod = next(one for one in free if one not in taken) if ordered else f"{name}-{uuid4().hex[:10]}"
        self._order[pod] = len(self._order)
        labels = workload["spec"]["template"]["metadata"]["labels"]
        owner = {"kind": "ReplicaSet", "uid": f"owner-of-{name}"}
        metadata = {"name": pod, "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner]}
        spec = workload["spec"]["template"].get("spec") or {}
        self.store.put(PODS, {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})

    def _schedule(self) -> None:
        """The fullest node that may take a pod, as `MostAllocated` scores; without nodes, as many as GPUs."""
        for pod in self._live():
            if "nodeName" in pod["spec"]:
                continue
            if pod["spec"].get("schedulingGates"):
                self._told_why(
                    pod, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates"
                )
                continue
            node = self._node_for(pod)
            if node:
                self.store.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}})
                self._later(self.ready_after_s, self._get_ready, pod["metadata"]["name"])
            else:
                why = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
                self._told_why(pod, "Unschedulable", why)

    def _told_why(self, pod: Thing, reason: str, why: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": why}
        self.store.put(PODS, {**pod, "status": {"phase": "Pending", "conditions": [condition]}})

    def _node_for(self, pod: Thing) -> str:
        used = Counter(one["spec"]["nodeName"] for one in self._live() if "nodeName" in one["spec"])
        nodes = {
            name: int(node["status"]["allocatable"]["nvidia.com/gpu"])
            for name, node in self.store.things.get(NODES, {}).items()
        }
        nodes = nodes or {"gpu-1": self.gpus}
        named = _named_nodes(pod)
        able = [
            name
            for name, gpus in nodes.items()
            if used[name] < gpus and (not named or name in named) and name not in self.shunned
        ]
        return max(able, key=lambda name: (used[name], name), default="")

    def _refuse(self, collection: str, workload: Thing) -> None:
        why = 'pods "x" is forbidden: exceeded quota: gpus, requested: pods=1, used: pods=2, limited: pods=2'
        if collection == DEPLOYMENTS:
            condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": why}
            self.store.put(collection, {**workload, "status": {"conditions": [condition]}})
            return
        about = {"kind": "StatefulSet", "name": workload["metadata"]["name"]}
        event = {"metadata": {"name": f"refused-{about['name']}"}, "involvedObject": about, "message": why}
        self.store.put(EVENTS, {**event, "reason": "FailedCreate", "lastTimestamp": stamp()})

    def _get_ready(self, name: str) -> None:
        pod = self.store.things.get(PODS, {}).get(name)
        if pod is not None and "deletionTimestamp" not in pod["metadata"] and not self.never_ready:
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            self.store.put(PODS, {**pod, "status": status})

    def _dismiss(self, pod: Thing) -> None:
        leaving = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": stamp()}}
        self.store.put(PODS, leaving)
        self._later(self.gone_after_s, self._go, pod["metadata"]["name"])

    def _go(self, name: str) -> None:
        if name in self.store.things.get(PODS, {}):
            self.store.delete(PODS, name)
            self.reconcile()

    def _later(self, delay_s: float, what: Any, name: str) -> None:
        asyncio.get_running_loop().call_later(delay_s, what, name)


def _named_nodes(pod: Thing) -> list[str]:
    """The nodes that its affinity names; none where any will do."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    return [name for term in terms for field in term.get("matchFields") or [] for name in field["values"]]


def _ready(pod: Thing) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _ordinal(pod: Thing) -> int:
    return -int(pod["metadata"]["name"].rpartition("-")[2])
