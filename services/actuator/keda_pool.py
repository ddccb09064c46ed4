"""Workers that KEDA sizes: Penstock says how many there should be, and KEDA asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from services.actuator.kubernetes_access import Access
from services.actuator.kubernetes_api import KubernetesApi
from services.actuator.kubernetes_target import TargetSpec
from services.actuator.kubernetes_view import KubernetesView
from services.actuator.lead_time import LeadTime
from services.actuator.wish import Wishes
from services.control.errors import PoolUnavailable, Rejected
from services.control.types import PoolCapabilities, PoolResize, PoolState, Victims

_OPEN_WITHIN_S = 30.0


class KedaPool:
    """A `WorkerPool` whose size is pulled. `resize()` publishes a wish; `observe()` reads Kubernetes.

    `requested` is the wish: it is what was asked for, whether KEDA has fetched it or not. Nothing is
    written to Kubernetes, so nobody is chosen to leave: a leaver gives back its leases on SIGTERM.
    """

    def __init__(
        self,
        job: str,
        target: TargetSpec,
        wishes: Wishes,
        *,
        access: Callable[[], Access],
        namespace: str = "",
    ) -> None:
        self._job = job
        self._target = target
        self._wishes = wishes
        self._access = access
        self._namespace = namespace
        self._view: KubernetesView | None = None

    async def __aenter__(self) -> Self:
        access = await asyncio.to_thread(self._access)
        view = KubernetesView(KubernetesApi(access), self._namespace or access.namespace, self._target)
        try:
            await view.open(within_s=_OPEN_WITHIN_S)
        except BaseException as error:
            await view.close()
            if isinstance(error, Rejected):
                raise PoolUnavailable(f"the pool of job {self._job} cannot be opened: {error}") from error
            raise
        self._view = view
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        view, self._view = self._view, None
        if view is not None:
            await view.close()

    async def observe(self) -> PoolState:
        """The wish in force, and the pods as the watches told last. Raises PoolUnavailable."""
        view = self._open()
        view.check()
        wish = await self._wishes.latest(self._job)
        return PoolState(
            requested=view.sized.replicas if wish is None else wish.workers,
            workers=view.workers(),
            failures=view.roster.failures(rolling=view.sized.rolling),
            trouble="; ".join(told for told in (self._unheard(view), view.trouble()) if told),
        )

    async def resize(self, request: PoolResize) -> None:
        """Publish the wish. Raises Fenced, Rejected and StateUnavailable."""
        self._open()
        await self._wishes.publish(self._job, request)

    def capabilities(self) -> PoolCapabilities:
        victims = Victims.HIGHEST if self._target.victims is Victims.HIGHEST else Victims.NONE
        return PoolCapabilities(hot_join=True, scale_to_zero=True, victims=victims, standbys=True)

    def lead_times(self) -> tuple[LeadTime, ...]:
        """The latest starts, asked to ready, oldest first."""
        return self._open().roster.lead_times.recent()

    def _unheard(self, view: KubernetesView) -> str:
        if view.rivals():
            return ""  # here the other autoscaler is KEDA's, and welcome
        return (
            f"no ScaledObject sizes {self._target.ref}: make one with Penstock as its trigger (docs/pools.md)"
        )

    def _open(self) -> KubernetesView:
        if self._view is None:
            raise PoolUnavailable(f"the pool of job {self._job} is not open")
        return self._view
