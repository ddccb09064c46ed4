"""Workers as pods of a Deployment, a StatefulSet or any other object that can be sized.

Kubernetes starts, watches and replaces the pods; Penstock sets their number. What was asked for, and
by which controller, is in the object itself, so any controller that reaches the API server goes on
from there. Nothing is polled: the pool looks at copies that follow the API server's watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

import structlog

from services.actuator.admission import admit
from services.actuator.kubernetes_access import Access
from services.actuator.kubernetes_api import Conflict, KubernetesApi
from services.actuator.kubernetes_rivals import Floor
from services.actuator.kubernetes_target import TargetSpec
from services.actuator.kubernetes_view import KubernetesView
from services.actuator.lead_time import LeadTime
from services.actuator.victims import choose_victims
from services.control.errors import PoolUnavailable, Rejected
from services.control.types import PoolCapabilities, PoolResize, PoolState, Victims, WorkerPhase

_TRIES = 8
"""A busy Deployment writes its status several times a second: each may cost us a try."""

log = structlog.get_logger()


class KubernetesPool:
    """A `WorkerPool` of pods. A worker's id is its pod's name.

    Readiness is the pod's own (a readiness probe). On leaving, the kubelet sends SIGTERM and waits
    for the pod's terminationGracePeriodSeconds: that is the time to drain.
    """

    def __init__(
        self,
        job: str,
        target: TargetSpec,
        *,
        access: Callable[[], Access],
        namespace: str = "",
        open_within_s: float = 30.0,
    ) -> None:
        self._job = job
        self._target = target
        self._access = access
        self._namespace = namespace
        self._open_within_s = open_within_s
        self._view: KubernetesView | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Reach the API server and copy what is there. Raises PoolUnavailable."""
        if self._view is not None:
            raise RuntimeError(f"the pool of job {self._job} is already open")
        access = await asyncio.to_thread(self._access)
        view = KubernetesView(KubernetesApi(access), self._namespace or access.namespace, self._target)
        try:
            await view.open(within_s=self._open_within_s)
        except BaseException as error:
            await view.close()
            if isinstance(error, Rejected):
                raise PoolUnavailable(f"the pool of job {self._job} cannot be opened: {error}") from error
            raise
        self._view = view

    async def close(self) -> None:
        """Stop looking. Pods stay."""
        view, self._view = self._view, None
        if view is not None:
            await view.close()

    async def observe(self) -> PoolState:
        """What the target asks for and which pods there are, as the watches told last."""
        view = self._open()
        view.check()
        return PoolState(
            requested=view.sized.replicas,
            workers=view.workers(),
            failures=view.roster.failures(rolling=view.sized.rolling),
            trouble="; ".join(told for told in (view.rivals(), view.trouble()) if told),
        )

    async def resize(self, request: PoolResize) -> None:
        """Set the target's size, unless another autoscaler does that.

        Never below a PodDisruptionBudget's minAvailable. Raises Fenced, Rejected, PoolUnavailable.
        """
        view = self._open()
        for tries_left in reversed(range(_TRIES)):
            try:
                await self._try_resize(view, request)
            except Conflict:
                if tries_left == 0:
                    raise
            else:
                return

    def capabilities(self) -> PoolCapabilities:
        return PoolCapabilities(
            hot_join=True, scale_to_zero=True, victims=self._target.victims, standbys=True
        )

    def lead_times(self) -> tuple[LeadTime, ...]:
        """The latest starts, asked to ready, oldest first."""
        return self._open().roster.lead_times.recent()

    async def _try_resize(self, view: KubernetesView, request: PoolResize) -> None:
        """Look, write the token down, put the size with the version of that. Raises Conflict."""
        sized = await view.target.look()
        admit(request, pool=f"pool of job {self._job}", newest=sized.fence)
        if view.rivals():
            raise Rejected(view.rivals())
        floor = view.floor()
        replicas = max(request.workers, 0 if floor is None else min(floor.least, sized.replicas))
        view.held = _held(request, floor) if replicas > request.workers else ""
        if sized.fence == request.fence and sized.replicas == replicas:
            return
        version = await view.target.fence(request, version=sized.version)
        if sized.replicas != replicas:
            if self._target.victims is Victims.ANY:
                await view.mark(self._leaving(view, replicas, request))
            version = await view.target.resize(replicas, version=version)
            log.info("target_resized", job=self._job, before=sized.replicas, after=replicas)
        view.asked(replicas, version)

    def _leaving(self, view: KubernetesView, keep: int, request: PoolResize) -> tuple[str, ...]:
        staying = [worker for worker in view.workers() if worker.phase is not WorkerPhase.DRAINING]
        return choose_victims(staying, keep=keep, remove=request.remove)

    def _open(self) -> KubernetesView:
        if self._view is None:
            raise PoolUnavailable(f"the pool of job {self._job} is not open")
        return self._view


def _held(request: PoolResize, floor: Floor | None) -> str:
    if floor is None:
        return ""
    return (
        f"PodDisruptionBudget {floor.name} keeps at least {floor.least} pods and {request.workers} were "
        "asked for; lower its minAvailable to shrink further"
    )
