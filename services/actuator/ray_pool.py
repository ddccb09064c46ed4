"""Workers as actors of a Ray cluster. What was asked for is kept there too, by an actor of its own."""

from __future__ import annotations

from dataclasses import replace

from services.actuator.charged_pool import ChargedPool
from services.actuator.charged_supervision import ChargedSupervision, Supervising
from services.actuator.crew import Crew
from services.actuator.ray_charges import RayCharges
from services.actuator.ray_cluster import RayCluster
from services.actuator.ray_platform import ActorSpec, RayPlatform
from services.actuator.supervision_apart import SupervisionApart
from services.actuator.tending import Tending
from services.control.types import PoolCapabilities

TENDING = Tending(poll_s=1.0)
"""Each pass asks every actor."""


class RayPool(ChargedPool):
    """A `WorkerPool` of actors, each of which holds GPUs and runs the command of one worker.

    The cluster's autoscaler is asked for as much as all pools want. Workers outlive the controller. A head
    that restarts with Ray's fault tolerance keeps record and workers; one that starts anew has neither,
    and the pool begins there with nothing.
    """

    def __init__(
        self, job: str, spec: ActorSpec, *, address: str = "auto", tending: Tending = TENDING
    ) -> None:
        super().__init__(job, tending)
        self._spec = replace(spec, env={**spec.env, **tending.told})
        self._address = address

    def capabilities(self) -> PoolCapabilities:
        """Ray shares a GPU out by fractions, and takes the word for a node; no other platform does."""
        return replace(super().capabilities(), fractional_gpus=True, places=True)

    def _reach(self) -> Supervising:
        """Apart: Ray ends every process that is connected to a cluster whose head it loses."""
        what = f"the Ray cluster at {self._address}"
        supervision = SupervisionApart(what, supervise, self._job, self._spec, self._address, self._tending)
        try:
            supervision.reach()
        except BaseException:
            supervision.close()
            raise
        return supervision


def supervise(job: str, spec: ActorSpec, address: str, tending: Tending) -> ChargedSupervision:
    """Connect this process to the cluster, and supervise from it. Raises PoolUnavailable."""
    cluster = RayCluster(address)
    charges = RayCharges(cluster, job)
    platform = RayPlatform(job, spec, cluster, charges)
    crew = Crew(job, platform, backoff=tending.backoff, drain_s=tending.drain_s, names=tending.names)
    return ChargedSupervision(job, platform, charges, crew)
