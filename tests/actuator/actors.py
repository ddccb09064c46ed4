"""Ray pools on a cluster of several nodes with made-up GPUs, started once for all tests that need one."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any

from services.actuator import Backoff
from services.actuator.tending import Tending
from services.control.types import PoolState
from tests.actuator.processes import FAKE_WORKER
from tests.actuator.rigs import until

if TYPE_CHECKING:
    from services.actuator.ray_pool import RayPool

GPUS_PER_NODE = 4
GPU_TYPE = "T4"
_jobs = count(1)


def lacking() -> str:
    """Why no test can run on Ray; empty when they can."""
    return "" if find_spec("ray") else "needs ray"


@contextmanager
def ray_cluster() -> Iterator[Any]:
    """A head without GPUs and two nodes with some."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 16, "num_gpus": 0})
    for _ in range(2):
        resources = {f"accelerator_type:{GPU_TYPE}": 1.0}
        cluster.add_node(num_cpus=16, num_gpus=GPUS_PER_NODE, resources=resources)
    try:
        ray.init(cluster.address, namespace="penstock", log_to_driver=False)  # for ourselves
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@dataclass
class RayRig:
    """A pool on the cluster, under a job of its own."""

    address: str

    def __post_init__(self) -> None:
        self.job = f"ads{next(_jobs)}"
        self.pool = self.another()

    def another(self, *how: str, drain_s: float = 600.0, gpu_type: str = "") -> RayPool:
        """One more controller's pool on the same job, not open yet."""
        from services.actuator.ray_platform import ActorSpec
        from services.actuator.ray_pool import RayPool

        tending = Tending(drain_s, Backoff(first_s=0.1, longest_s=1.0), poll_s=0.2)
        spec = ActorSpec((*FAKE_WORKER, *how), gpus=1.0, cpus=0.1, gpu_type=gpu_type)
        return RayPool(self.job, spec, address=self.address, tending=tending)

    async def until(self, condition: Callable[[PoolState], bool], what: str) -> PoolState:
        return await until(self.pool, condition, what, within_s=90.0)

    def kill(self, worker: str) -> None:
        """Let its process die unasked."""
        import ray

        actor = ray.get_actor(f"penstock-{self.job}-{worker}", namespace="penstock")
        os.kill(ray.get(actor.sight.remote(), timeout=30).pid, signal.SIGKILL)


@asynccontextmanager
async def ray_rig(address: str) -> AsyncIterator[RayRig]:
    """A rig with its pool open; its workers end with it."""
    rig = RayRig(address)
    await rig.pool.open()
    try:
        yield rig
    finally:
        await rig.pool.close(keep_workers=False, within_s=1.0)
