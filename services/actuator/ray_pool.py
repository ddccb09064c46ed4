"""Workers as actors of a Ray cluster. What was asked for is kept there too, by an actor of its own."""

from __future__ import annotations

from dataclasses import replace

from services.actuator.charged_pool import ChargedPool
from services.actuator.charged_supervision import ChargedSupervision
from services.actuator.crew import Crew
from services.actuator.ray_cluster import RayCluster
from services.actuator.ray_platform import ActorSpec, RayCharges, RayPlatform
from services.actuator.tending import Tending
from services.control.types import PoolCapabilities

TENDING = Tending(poll_s=1.0)
"""Each pass asks every actor."""


class RayPool(ChargedPool):
    """A `WorkerPool` of actors, each of which holds GPUs and runs the command of one worker.

    The cluster's autoscaler is asked for as much as all pools want. Workers outlive the controller; what
    becomes of them when the cluster's head restarts is as Ray was told.
    """

    def __init__(
        self, job: str, spec: ActorSpec, *, address: str = "auto", tending: Tending = TENDING
    ) -> None:
        super().__init__(job, tending)
        self._spec = spec
        self._address = address

    def capabilities(self) -> PoolCapabilities:
        """Ray shares a GPU out by fractions; no other platform does."""
        return replace(super().capabilities(), fractional_gpus=True)

    def _reach(self) -> ChargedSupervision:
        cluster = RayCluster(self._address)
        charges = RayCharges(cluster, self._job)
        platform = RayPlatform(self._job, self._spec, cluster, charges)
        crew = Crew(
            self._job,
            platform,
            backoff=self._tending.backoff,
            drain_s=self._tending.drain_s,
            names=self._tending.names,
        )
        return ChargedSupervision(self._job, platform, charges, crew)
