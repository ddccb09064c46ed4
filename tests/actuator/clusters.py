"""Kubernetes pools under test: on the API server of the tests, or on a real control plane."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from math import inf

from services.actuator.kubernetes_access import Access, Token
from services.actuator.kubernetes_pool import KubernetesPool
from services.actuator.kubernetes_target import TargetSpec
from services.control.types import PoolState
from tests.actuator.kubernetes_controllers import DEPLOYMENTS, NAMESPACE, STATEFUL_SETS
from tests.actuator.kubernetes_server import ApiServer, api_server
from tests.actuator.kubernetes_store import Thing
from tests.actuator.rigs import until


def workload(name: str, *, replicas: int = 0) -> Thing:
    """A Deployment or StatefulSet of no pods yet."""
    labels = {"app": name}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": labels}}},
        "status": {},
    }


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


@dataclass
class ClusterRig:
    """A pool on the API server of the tests, and power over that server."""

    server: ApiServer
    target: TargetSpec

    def __post_init__(self) -> None:
        self.pool = self.another()

    def another(self) -> KubernetesPool:
        """One more controller's pool on the same target, not open yet."""
        server = f"http://127.0.0.1:{self.server.port}"
        access = Access(server, NAMESPACE, _tls(), Token(lambda: ("secret", inf)))
        return KubernetesPool("ads", self.target, access=lambda: access)

    @property
    def replicas(self) -> int:
        """What the target asks for by now."""
        collection = STATEFUL_SETS if self.target.kind == "StatefulSet" else DEPLOYMENTS
        return int(self.server.store.get(collection, "ads")["spec"]["replicas"])

    async def until(self, condition: Callable[[PoolState], bool], what: str) -> PoolState:
        return await until(self.pool, condition, what)

    def kill(self, worker: str) -> None:
        self.server.controllers.lose(worker)


@asynccontextmanager
async def cluster_rig(kind: str = "Deployment") -> AsyncIterator[ClusterRig]:
    """A rig with a target of no pods and its pool open."""
    async with api_server() as server:
        collection = STATEFUL_SETS if kind == "StatefulSet" else DEPLOYMENTS
        server.store.put(collection, workload("ads"))
        rig = ClusterRig(server, TargetSpec("ads", kind=kind))
        async with rig.pool:
            yield rig
