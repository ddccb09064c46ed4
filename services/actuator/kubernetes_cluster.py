"""A Kubernetes cluster as placement sees it: its nodes, what is taken of them, and who waits at the gate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from estimator.fleet.machines import Amounts
from services.actuator.kubernetes_access import Access
from services.actuator.kubernetes_api import Conflict, KubernetesApi, NotThere, Object
from services.actuator.kubernetes_gate import PlacedPod, opened, read_placed, sent_back
from services.actuator.kubernetes_mirror import Mirror
from services.actuator.kubernetes_nodes import usable
from services.actuator.kubernetes_requests import amounts
from services.actuator.kubernetes_suits import NodeFace
from services.control.errors import PoolUnavailable, Rejected

_HINDERED_FOR_S = 10.0
_NODES_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node: what it shows to pods, and what it can give."""

    face: NodeFace
    room: Amounts
    usable: bool


def read_node(node: Object) -> ClusterNode:
    """Any node of the cluster."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    face = NodeFace(metadata["name"], metadata.get("labels") or {}, tuple(spec.get("taints") or ()))
    return ClusterNode(face, amounts((node.get("status") or {}).get("allocatable")), usable(node))


class KubernetesCluster:
    """Follows nodes and pods from `open()` to `close()`. Writes to pods that wait at the gate alone."""

    def __init__(self, access: Access, namespaces: Iterable[str]) -> None:
        self.partial = ""
        """Why not all pods count, in words; empty when they do."""
        self._api = KubernetesApi(access)
        self._namespaces = sorted({name or access.namespace for name in namespaces})
        self._nodes = Mirror(self._api, "/api/v1/nodes", read_node, changed=self._stir)
        self._pods: list[Mirror[PlacedPod]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._stirred = asyncio.Event()

    async def open(self, *, within_s: float = 30.0) -> None:
        """Begin to follow. Raises PoolUnavailable, Rejected when nothing can be seen at all.

        Pods of all namespaces where that is allowed; else those of our own, which is told.
        """
        try:
            await self._api.list("/api/v1/pods", {"fieldSelector": "metadata.name=-"})
            paths = ["/api/v1/pods"]
        except Rejected as error:
            self.partial = f"only pods of {', '.join(self._namespaces)} are counted: {error}"
            paths = [f"/api/v1/namespaces/{name}/pods" for name in self._namespaces]
        self._pods = [Mirror(self._api, path, read_placed, changed=self._stir) for path in paths]
        mirrors: list[Mirror[Any]] = [self._nodes, *self._pods]
        self._tasks = [asyncio.create_task(mirror.follow()) for mirror in mirrors]
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(*(mirror.listed.wait() for mirror in self._pods))
        except TimeoutError:
            raise PoolUnavailable(f"the pods were not listed in {within_s:.0f} s") from None
        with suppress(TimeoutError):  # without the nodes pods are let through all the same, a little later
            async with asyncio.timeout(_NODES_WITHIN_S):
                await self._nodes.listed.wait()

    async def close(self) -> None:
        """Stop following."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._api.close()

    async def stirred(self, *, within_s: float) -> None:
        """Return when something has changed since the last call, or after a while."""
        for task in self._tasks:
            if task.done():
                task.result()  # a mistake in the reading itself: let it be seen
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._stirred.wait()
        self._stirred.clear()

    @property
    def blind(self) -> str:
        """Why the nodes are not known as they are now, in words; empty when they are."""
        if not self._nodes.listed.is_set():
            return self._nodes.fault or "the nodes have not been listed yet"
        lasting = time.monotonic() - self._nodes.fault_since_s > _HINDERED_FOR_S
        return self._nodes.fault if lasting else ""

    def nodes(self) -> list[ClusterNode]:
        """Those that take pods."""
        return [node for node in self._nodes.objects.values() if node.usable]

    def pods(self) -> list[PlacedPod]:
        """Every pod that is counted."""
        return [pod for mirror in self._pods for pod in mirror.objects.values()]

    def ours(self, pod: PlacedPod) -> bool:
        """Whether it is of a namespace of our jobs: at another's gate another controller stands."""
        return pod.namespace in self._namespaces

    async def let_through(self, pod: PlacedPod, node: str) -> bool:
        """Take the gate away, towards one node or any; False where somebody else was quicker.

        Raises PoolUnavailable, Rejected.
        """
        try:
            await self._api.patch(pod.path, opened(pod, node))
        except (Conflict, NotThere):
            return False
        return True

    async def send_back(self, pod: PlacedPod) -> bool:
        """Delete a pod that never ran, so that what made it makes another; False where it has changed.

        Raises PoolUnavailable, Rejected.
        """
        try:
            await self._api.delete(pod.path, sent_back(pod))
        except (Conflict, NotThere):
            return False
        return True

    def _stir(self, _before: object, _after: object) -> None:
        self._stirred.set()
