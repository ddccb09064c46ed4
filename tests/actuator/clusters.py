"""Pools on the API server of the tests: sized by us, and by KEDA."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from math import inf

import yaml

from services.actuator.keda_pool import KedaPool
from services.actuator.kubernetes_access import Access, Token
from services.actuator.kubernetes_place import KubernetesPlace
from services.actuator.kubernetes_pool import KubernetesPool
from services.actuator.kubernetes_target import TargetSpec
from services.actuator.wish import MemoryWishes, Wish
from services.control.types import PoolState
from tests.actuator.kubernetes_controllers import DEPLOYMENTS, NAMESPACE, STATEFUL_SETS
from tests.actuator.kubernetes_server import ApiServer, api_server
from tests.actuator.kubernetes_store import Thing
from tests.actuator.rigs import until
from tests.waiting import eventually_async

HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"


def workload(name: str, *, replicas: int = 0) -> Thing:
    """A Deployment or StatefulSet of no pods yet."""
    labels = {"app": name}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": labels}}},
        "status": {},
    }


def kubeconfig(server: ApiServer) -> str:
    """A file that names this server, as YAML."""
    context = {"cluster": "c", "user": "u", "namespace": NAMESPACE}
    return yaml.safe_dump(
        {
            "current-context": "here",
            "contexts": [{"name": "here", "context": context}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        }
    )


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def access_to(server: ApiServer) -> Access:
    """Whoever asks is let in."""
    address = f"http://127.0.0.1:{server.port}"
    return Access(address, NAMESPACE, _tls(), Token(lambda: ("secret", inf)))


@dataclass
class ClusterRig:
    """A pool on the API server of the tests, and power over that server."""

    server: ApiServer
    target: TargetSpec

    def __post_init__(self) -> None:
        self.pool = self.another()

    def another(self, *, drain_s: float = 0.0) -> KubernetesPool:
        """One more controller's pool on the same target, not open yet."""
        access = access_to(self.server)
        return KubernetesPool("ads", KubernetesPlace(self.target, lambda: access, drain_s=drain_s))

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


@dataclass
class KedaRig:
    """A pool that KEDA sizes, and a KEDA that asks often and follows at once."""

    server: ApiServer
    pool: KedaPool
    wishes: MemoryWishes

    async def follow(self) -> None:
        """Be KEDA, for ever."""
        while True:
            wish = await eventually_async(self._unheard, within_s=inf, what="a new wish")
            target = self.server.store.get(DEPLOYMENTS, "ads")
            spec = {**target["spec"], "replicas": wish.workers}
            self.server.store.put(DEPLOYMENTS, {**target, "spec": spec})
            self.server.controllers.reconcile()

    async def _unheard(self) -> Wish:
        wish = await self.wishes.latest("ads")
        target = self.server.store.get(DEPLOYMENTS, "ads")
        assert wish is not None
        assert wish.workers != target["spec"]["replicas"]
        return wish

    async def until(self, condition: Callable[[PoolState], bool], what: str) -> PoolState:
        return await until(self.pool, condition, what)

    def kill(self, worker: str) -> None:
        self.server.controllers.lose(worker)


@asynccontextmanager
async def keda_rig() -> AsyncIterator[KedaRig]:
    """A rig whose target has a ScaledObject, its pool open and its KEDA at work."""
    async with cluster_rig() as cluster:
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "ads"}
        spec = {"scaleTargetRef": ref}
        cluster.server.store.put(HPAS, {"metadata": {"name": "keda-hpa-ads"}, "spec": spec})
        wishes = MemoryWishes()
        async with KedaPool("ads", cluster.pool._place, wishes) as pool:
            rig = KedaRig(cluster.server, pool, wishes)
            keda = asyncio.create_task(rig.follow())
            yield rig
            keda.cancel()
