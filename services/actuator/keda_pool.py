"""Workers that KEDA sizes: Penstock says how many there should be, and KEDA asks."""

from __future__ import annotations

from services.actuator.kubernetes_place import KubernetesPlace, WatchedPool
from services.actuator.kubernetes_view import KubernetesView
from services.actuator.wish import Wishes
from services.control.errors import Rejected
from services.control.types import PoolCapabilities, PoolResize, PoolState, Victims


class KedaPool(WatchedPool):
    """A `WorkerPool` whose size is pulled. `resize()` publishes a wish; `observe()` reads Kubernetes.

    `requested` is the wish: it is what was asked for, whether KEDA has fetched it or not. Nothing is
    written to Kubernetes, so nobody is chosen to leave: a leaver gives back its leases on SIGTERM.
    """

    def __init__(self, job: str, place: KubernetesPlace, wishes: Wishes) -> None:
        super().__init__(job, place)
        self._wishes = wishes

    async def observe(self) -> PoolState:
        """The wish in force, the pods as the watches told last, and the bounds that KEDA was given.

        Raises PoolUnavailable.
        """
        view = self._open()
        view.check()
        least, most = view.rivals_bounds()
        return PoolState(
            requested=await self._requested(view),
            workers=view.workers(),
            failures=view.roster.failures(rolling=view.sized.rolling),
            trouble="; ".join(
                told for told in (self._unheard(view), view.trouble(), self._hurried(view)) if told
            ),
            least=least,
            most=most,
        )

    async def resize(self, request: PoolResize) -> None:
        """Publish the wish, but none for fewer where pods would be killed before they have drained.

        Raises Fenced, Rejected and StateUnavailable.
        """
        view = self._open()
        if self._hurried(view) and request.workers < await self._requested(view):
            raise Rejected(self._hurried(view))
        await self._wishes.publish(self._job, request)

    def capabilities(self) -> PoolCapabilities:
        victims = Victims.HIGHEST if self._place.target.victims is Victims.HIGHEST else Victims.NONE
        return PoolCapabilities(hot_join=True, scale_to_zero=True, victims=victims, standbys=True)

    async def _requested(self, view: KubernetesView) -> int:
        wish = await self._wishes.latest(self._job)
        return view.sized.replicas if wish is None else wish.workers

    def _unheard(self, view: KubernetesView) -> str:
        if view.rivals():
            return ""  # here the other autoscaler is KEDA's, and welcome
        ref = self._place.target.ref
        return f"no ScaledObject sizes {ref}: make one with Penstock as its trigger (docs/pools.md)"
