"""Where pods are, and what is the same of the pools that watch them there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from services.actuator.kubernetes_access import Access
from services.actuator.kubernetes_api import KubernetesApi
from services.actuator.kubernetes_target import TargetSpec
from services.actuator.kubernetes_view import KubernetesView
from services.actuator.lead_time import LeadTime
from services.actuator.opening import OpenedPool
from services.control.errors import PoolUnavailable, Rejected


@dataclass(frozen=True, slots=True)
class KubernetesPlace:
    """What a pool of pods looks at, however it is sized."""

    target: TargetSpec
    access: Callable[[], Access]
    """May read files and run programs: called in a thread, each time that a pool is opened."""
    namespace: str = ""
    """The access' own when empty."""
    drain_s: float = 0.0
    """What a worker may need to leave. Nobody is sent away where pods get less than that."""
    open_within_s: float = 30.0

    async def view(self, *, pool: str) -> KubernetesView:
        """A copy of what is there, followed by watches. Raises PoolUnavailable."""
        access = await asyncio.to_thread(self.access)
        view = KubernetesView(KubernetesApi(access), self.namespace or access.namespace, self.target)
        try:
            await view.open(within_s=self.open_within_s)
        except BaseException as error:
            await view.close()
            if isinstance(error, Rejected):
                raise PoolUnavailable(f"{pool} cannot be opened: {error}") from error
            raise
        return view


class WatchedPool(OpenedPool[KubernetesView]):
    """A pool of pods that Kubernetes runs, followed by watches; who sets their number is left open."""

    def __init__(self, job: str, place: KubernetesPlace) -> None:
        super().__init__(job)
        self._place = place

    async def close(self) -> None:
        """Stop looking. Pods stay."""
        view = self._end()
        if view is not None:
            await view.close()

    def lead_times(self) -> tuple[LeadTime, ...]:
        """The latest starts, asked to ready, oldest first."""
        return self._open().roster.lead_times.recent()

    def _hurried(self, view: KubernetesView) -> str:
        """Why the pool must not be made smaller; empty when it may be."""
        return view.hurried(self._place.drain_s)

    async def _begin(self) -> KubernetesView:
        return await self._place.view(pool=self._name)
