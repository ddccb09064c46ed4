"""Tells workers that wait at the gate on which node to come, and lets nobody wait there for long."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from estimator.fleet.arrivals import Seat, in_order
from services.control.errors import ControlError, PoolUnavailable, Rejected
from services.controller.house import House, arrivals_of, floor_of
from services.settings.fleet import PlatformSettings

if TYPE_CHECKING:
    from services.actuator.kubernetes_cluster import KubernetesCluster
    from services.actuator.kubernetes_gate import PlacedPod

LEFT_ALONE_S = 600.0
"""After a node that was chosen did not take a pod, its kin are the scheduler's for so long: it knows why."""
SEATED_KEPT = 50
"""Who was told a node lately, for whoever looks."""
_LOOKS_EVERY_S = 1.0

log = structlog.get_logger(__name__)


class WaitReason(StrEnum):
    """Why a worker still waits at the gate."""

    FULL = "full"
    """No node that may take it has room."""
    KEPT = "kept"
    """There is room, and all of it is needed for guarantees."""
    BLIND = "nodes_unknown"
    HINDERED = "hindered"
    """A node was chosen, and the platform did not take the word for it; `trouble` says why."""
    REFUSED = "refused"
    """It was let through, and the scheduler does not put it on the node that was chosen."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A worker without a node."""

    pod: str
    job: str
    waits_s: float
    why: WaitReason
    node: str = ""
    """The one that was chosen, if any was."""


@dataclass(frozen=True, slots=True)
class Seated:
    """A worker that was told its node; the scheduler's choice where that is empty."""

    pod: str
    job: str
    node: str
    why: str
    at_s: float


class Usher:
    """One for each controller that leads. All but since when somebody waits is read from the cluster."""

    def __init__(
        self,
        cluster: KubernetesCluster,
        house: Callable[[], House],
        *,
        within_s: float,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trouble = ""
        """What hinders it, in words; empty when nothing does, and while nobody waits for a node."""
        self.waiting: tuple[Waiting, ...] = ()
        """Who has no node, the longest first."""
        self._seated: deque[Seated] = deque(maxlen=SEATED_KEPT)
        self._cluster = cluster
        self._house = house
        self._within_s = within_s
        self._now_s = now_s
        self._since_s: dict[str, float] = {}
        """By pod, since when it waits: at the gate, or for a scheduler that has refused it."""
        self._told: dict[str, str] = {}
        """By pod, the node it was sent to, until the cluster shows it."""
        self._alone_until_s: dict[str, float] = {}

    async def tend(self) -> None:
        """Look once, after something has changed or a second has passed."""
        await self._cluster.stirred(within_s=_LOOKS_EVERY_S)
        pods, now_s = self._cluster.pods(), self._now_s()
        ours = [pod for pod in pods if self._cluster.ours(pod) and not pod.going]
        gated = [pod for pod in ours if pod.gated]
        self._told = {pod.uid: self._told[pod.uid] for pod in gated if pod.uid in self._told}
        waiting = [pod for pod in gated if pod.uid not in self._told]
        stuck = [pod for pod in ours if pod.node and not pod.bound and pod.refused]
        self._since_s = {pod.uid: self._since_s.get(pod.uid, now_s) for pod in (*waiting, *stuck)}
        if not waiting and not stuck:
            self.trouble, self.waiting = "", ()
            return
        blind, still = self._cluster.blind, []
        troubles = [f"the nodes are not known: {blind}" if blind else self._cluster.partial]
        async for pod, seat in self._seats(waiting, pods, blind=bool(blind)):
            troubles.append(await self._tried(pod, self._let_through(pod, seat, now_s)))
            if pod.uid not in self._told:
                still.append((pod, _why(seat, blind=bool(blind))))
        troubles += [await self._tried(pod, self._send_back(pod, now_s)) for pod in stuck]
        still += [(pod, WaitReason.REFUSED) for pod in stuck]
        self.waiting = tuple(sorted((self._waits(*one, now_s) for one in still), key=_longest_first))
        self.trouble = next((one for one in reversed(troubles) if one), "")

    def seated(self) -> tuple[tuple[Seated, float], ...]:
        """Who was told a node last, the latest first, and how many seconds ago."""
        now_s = self._now_s()
        return tuple((one, now_s - one.at_s) for one in reversed(self._seated))

    def _waits(self, pod: PlacedPod, why: WaitReason, now_s: float) -> Waiting:
        return Waiting(pod.name, pod.job, now_s - self._since_s[pod.uid], why, pod.node)

    async def _tried(self, pod: PlacedPod, step: Awaitable[None]) -> str:
        """What went wrong with one pod, in words: the others do not wait for it."""
        try:
            await step
        except ControlError as error:
            trouble = f"pod {pod.name} waits for its node: {error}"
            if trouble != self.trouble:
                log.warning("worker_not_seated", pod=pod.name, job=pod.job, why=str(error))
            return trouble
        return ""

    async def _seats(
        self, waiting: list[PlacedPod], pods: list[PlacedPod], *, blind: bool
    ) -> AsyncIterator[tuple[PlacedPod, Seat | None]]:
        """One after the other; None for whom we may not place, and while nobody knows the nodes."""
        now_s = self._now_s()
        ours = {
            pod.uid: pod for pod in waiting if not blind and self._alone_until_s.get(pod.owner, 0.0) <= now_s
        }
        for pod in waiting:
            if pod.uid not in ours:
                yield pod, None
        if not ours:
            return
        shown = [replace(pod, node=self._told.get(pod.uid, pod.node)) for pod in pods]
        house = self._house()
        floor = floor_of(shown, self._cluster, house)
        for arrival in in_order(arrivals_of(ours.values(), self._cluster, house), floor):
            # Apart: a thousand nodes with guarantees take a tenth of a second.
            yield ours[arrival.worker], await asyncio.to_thread(floor.seat, arrival)

    async def _let_through(self, pod: PlacedPod, seat: Seat | None, now_s: float) -> None:
        node = "" if seat is None else seat.node
        late = now_s - self._since_s[pod.uid] >= self._within_s
        alone = self._alone_until_s.get(pod.owner, 0.0) > now_s
        if not node and not late and not alone:
            return
        try:
            passed = await self._cluster.let_through(pod, node)
        except Rejected:
            if not node or not late:
                raise
            node, passed = "", await self._cluster.let_through(pod, "")
        if passed:
            self._told[pod.uid] = node
            why = "scheduler" if not node or seat is None else seat.reason.value
            self._seated.append(Seated(pod.name, pod.job, node, why, now_s))
            log.info("worker_seated", pod=pod.name, job=pod.job, node=node, why=why)

    async def _send_back(self, pod: PlacedPod, now_s: float) -> None:
        """A pod cannot be told another node: what made it makes another, which the scheduler places."""
        if not pod.owner or now_s - self._since_s[pod.uid] < self._within_s:
            return
        if await self._cluster.send_back(pod):
            self._alone_until_s[pod.owner] = now_s + LEFT_ALONE_S
            log.warning("worker_sent_back", pod=pod.name, job=pod.job, node=pod.node)


def _why(seat: Seat | None, *, blind: bool) -> WaitReason:
    if seat is None:
        return WaitReason.BLIND if blind else WaitReason.HINDERED
    return WaitReason.HINDERED if seat.node else WaitReason(seat.reason.value)


def _longest_first(waiting: Waiting) -> tuple[float, str]:
    return -waiting.waits_s, waiting.pod


@asynccontextmanager
async def open_usher(
    platform: PlatformSettings, namespaces: Iterable[str], house: Callable[[], House]
) -> AsyncIterator[Usher]:
    """Who places the pods of a Kubernetes cluster. Raises PoolUnavailable, Rejected."""
    try:
        from services.actuator.kubernetes_access import find_access  # noqa: PLC0415 - an extra
        from services.actuator.kubernetes_cluster import KubernetesCluster  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise PoolUnavailable(f"placement needs the package {error.name}: the extra `kubernetes`") from error
    access = await asyncio.to_thread(find_access, platform.kubeconfig, platform.context)
    cluster = KubernetesCluster(access, namespaces)
    try:
        await cluster.open()
        yield Usher(cluster, house, within_s=platform.place_within_s)
    finally:
        await cluster.close()
