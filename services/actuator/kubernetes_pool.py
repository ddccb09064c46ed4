"""Workers as pods of a Deployment, a StatefulSet or any other object that can be sized.

Kubernetes starts, watches and replaces the pods; Penstock sets their number. What was asked for, and
by which controller, is in the object itself, so any controller that reaches the API server goes on
from there. Nothing is polled: the pool looks at copies that follow the API server's watches.
"""

from __future__ import annotations

import structlog

from services.actuator.admission import admit
from services.actuator.kubernetes_api import Conflict
from services.actuator.kubernetes_place import WatchedPool
from services.actuator.kubernetes_rivals import Floor, TargetRef
from services.actuator.kubernetes_target import Sized
from services.actuator.kubernetes_view import KubernetesView
from services.actuator.victims import choose_victims
from services.control.errors import Rejected
from services.control.types import PoolCapabilities, PoolResize, PoolState, WorkerPhase

_TRIES = 8
"""A busy Deployment writes its status several times a second: each may cost us a try."""

log = structlog.get_logger()


class KubernetesPool(WatchedPool):
    """A `WorkerPool` of pods. A worker's id is its pod's name.

    Readiness is the pod's own (a readiness probe). On leaving, the kubelet sends SIGTERM and waits
    for the pod's terminationGracePeriodSeconds: that is the time to drain.
    """

    async def observe(self) -> PoolState:
        """What the target asks for and which pods there are, as the watches told last."""
        view = self._open()
        view.check()
        floor = view.floor()
        return PoolState(
            requested=view.sized.replicas,
            workers=view.workers(),
            failures=view.roster.failures(rolling=view.sized.rolling),
            trouble="; ".join(told for told in (view.rivals(), view.trouble(), self._hurried(view)) if told),
            least=max(view.sized.least, 0 if floor is None else floor.least),
            most=view.sized.most,
            replacing=view.sized.replacing,
        )

    async def resize(self, request: PoolResize) -> None:
        """Set the target's size, unless another autoscaler does that.

        Never below a PodDisruptionBudget's minAvailable, and never a smaller one where pods would be killed
        before they have drained. Raises Fenced, Rejected, PoolUnavailable.
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
            hot_join=True, scale_to_zero=True, victims=self._place.target.victims, standbys=True
        )

    async def _try_resize(self, view: KubernetesView, request: PoolResize) -> None:
        """Look, write the token down, put the size with the version of that. Raises Conflict."""
        sized = await view.target.look()
        admit(request, pool=self._name, newest=sized.fence)
        if view.rivals():
            raise Rejected(view.rivals())
        replicas, view.held = _allowed(request.workers, sized, view.floor(), self._place.target.ref)
        if sized.fence == request.fence and sized.replicas == replicas:
            return
        if replicas < sized.replicas and self._hurried(view):
            raise Rejected(self._hurried(view))
        version = await view.target.fence(request, version=sized.version)
        if sized.replicas != replicas:
            leaving = self._leaving(view, replicas, request)
            if self._place.target.heeds_marks and not sized.replacing:
                await view.mark(leaving)
            version = await view.target.resize(replicas, sized, version=version, leaving=leaving)
            log.info("target_resized", job=self._job, before=sized.replicas, after=replicas)
        view.asked(replicas, version)

    def _leaving(self, view: KubernetesView, keep: int, request: PoolResize) -> tuple[str, ...]:
        staying = [worker for worker in view.workers() if worker.phase is not WorkerPhase.DRAINING]
        return choose_victims(staying, keep=keep, remove=request.remove)


def _allowed(asked: int, sized: Sized, floor: Floor | None, target: TargetRef) -> tuple[int, str]:
    """The size to set, and what keeps it from what was asked for; empty when nothing does.

    A budget keeps a pool from shrinking, and does not make it grow.
    """
    if floor is not None and asked < min(floor.least, sized.replicas):
        return min(floor.least, sized.replicas), (
            f"PodDisruptionBudget {floor.name} keeps at least {floor.least} pods and {asked} were "
            "asked for; lower its minAvailable to shrink further"
        )
    most = asked if sized.most is None else sized.most
    if sized.least <= asked <= most:
        return asked, ""
    size = min(max(asked, sized.least), most)
    return size, f"{target} itself allows {size} replicas where {asked} were asked for; mend its own bounds"
