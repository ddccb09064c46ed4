"""What a Kubernetes pool sees: copies of its target, its pods, and whoever else has a say in their number."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from services.actuator.kubernetes_api import KubernetesApi, NotThere
from services.actuator.kubernetes_mirror import Mirror
from services.actuator.kubernetes_pods import DELETION_COST, GATED, Pod, read_pod, read_refusal, tell_pending
from services.actuator.kubernetes_rivals import (
    Floor,
    Rival,
    bounds_of_rivals,
    highest_floor,
    read_budget,
    read_hpa,
    read_scaled_object,
    tell_rivals,
)
from services.actuator.kubernetes_roster import Roster
from services.actuator.kubernetes_target import Sized, Target, TargetSpec
from services.control.errors import PoolUnavailable
from services.control.types import Worker, WorkerPhase

_FIRST_TO_GO = "-1000"
_HINDERED_FOR_S = 10.0
"""A watch that breaks is opened anew in a moment; only a lasting break is worth telling."""
_GATED_FOR_S = 60.0
"""A pod that waits so long at a scheduling gate has nobody who opens it."""
_REFUSAL_FOR_S = 600.0
"""Kubernetes keeps trying, and tells it again within this time."""


class KubernetesView:
    """Follows the API server from `open()` to `close()`."""

    def __init__(self, api: KubernetesApi, namespace: str, spec: TargetSpec) -> None:
        self.target = Target(api, namespace, spec)
        self.roster = Roster()
        self.sized = Sized()
        """The target as it was seen last."""
        self.held = ""
        """Why the last resize was not followed to the full; empty when it was."""
        self._api = api
        self._spec = spec
        self._namespace = namespace
        self._tasks: list[asyncio.Task[None]] = []
        self._mirrors: list[Mirror[Any]] = []
        self._pods_path = f"/api/v1/namespaces/{namespace}/pods"

    async def open(self, *, within_s: float) -> None:
        """Copy what is there, and follow it from here on. Raises PoolUnavailable and Rejected."""
        selector = await self.target.find()
        self._see(await self.target.look())
        self._follow(selector)
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(*(mirror.listed.wait() for mirror in self._mirrors))
        except TimeoutError:
            faults = " and ".join(mirror.fault for mirror in self._mirrors if mirror.fault)
            raise PoolUnavailable(
                f"the Kubernetes API server did not list in {within_s:.0f} s: {faults}"
            ) from None

    async def close(self) -> None:
        """Stop following, and let go of the API server."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._api.close()

    def check(self) -> None:
        """Raises PoolUnavailable when the copies have not been true for a while."""
        for task in self._tasks:
            if task.done():
                task.result()  # a mistake in the pool itself: let it be seen
        for mirror in self._mirrors:
            if mirror.fault and time.monotonic() - mirror.fault_since_s > _HINDERED_FOR_S:
                raise PoolUnavailable(mirror.fault)
        if not self._targets.objects:
            raise PoolUnavailable(f"there is no {self._spec.ref} in namespace {self._namespace}: create it")

    def workers(self) -> tuple[Worker, ...]:
        """Every pod that has not run its course."""
        return tuple(self.roster.shown(pod) for pod in self._live())

    def trouble(self) -> str:
        """What keeps the pool from its size, other autoscalers apart, in words; empty when nothing does."""
        told = [self.held, self._refusal(), tell_pending(self._lingering())]
        return "; ".join(one for one in told if one)

    def hurried(self, drain_s: float) -> str:
        """Why nobody may be sent away: pods are killed before they can have drained; empty when none is."""
        given = [pod.grace_s for pod in self._live() if pod.phase is not WorkerPhase.DRAINING]
        given += [] if self.sized.grace_s is None else [self.sized.grace_s]
        least_s = min(given, default=drain_s)
        if least_s >= drain_s:
            return ""
        return (
            f"pods of {self._spec.ref} get {least_s:g} s to leave and pool.drain_s is {drain_s:g}: they "
            "would be killed while they hold leases, so the pool is not made smaller; raise their "
            "terminationGracePeriodSeconds, or lower pool.drain_s"
        )

    def rivals(self) -> str:
        """Why the target must not be sized by us; empty when nobody else sizes it."""
        if self.sized.sizes_itself:
            return (
                f"{self._spec.ref} sizes itself (spec.{self.sized.sizes_itself}), and the two would fight: "
                "turn that off, or set the job's mode to recommend"
            )
        return tell_rivals(self._rivals(), self._spec.ref)

    def rivals_bounds(self) -> tuple[int, int | None]:
        """Between which sizes the other autoscaler keeps the target, where that is welcome."""
        return bounds_of_rivals(self._rivals(), self._spec.ref)

    def floor(self) -> Floor | None:
        """The PodDisruptionBudget that binds the most."""
        return highest_floor(self._budgets.objects.values(), self.sized.labels)

    def asked(self, replicas: int, version: str) -> None:
        """We have set the size: known before the watch tells."""
        self._see(replace(self.sized, replicas=replicas, version=version))

    async def mark(self, victims: Iterable[str]) -> None:
        """Let exactly these pods go first when their ReplicaSet shrinks."""
        going = set(victims)
        for pod in self._live():
            cost = _FIRST_TO_GO if pod.name in going else ""
            if pod.deletion_cost != cost and _FIRST_TO_GO in (pod.deletion_cost, cost):
                await self._annotate(pod.name, cost)

    async def _annotate(self, pod: str, cost: str) -> None:
        annotations = {"metadata": {"annotations": {DELETION_COST: cost or None}}}
        try:
            await self._api.patch(f"{self._pods_path}/{pod}", annotations)
        except NotThere:
            return  # it has gone already

    def _follow(self, selector: str) -> None:
        api, apis, within = self._api, "/apis", f"namespaces/{self._namespace}"
        only = {"fieldSelector": f"metadata.name={self._spec.name}"}
        self._targets = Mirror(
            api, self.target.collection, self.target.read, selection=only, changed=self._target_changed
        )
        pods = {"labelSelector": selector}
        self._pods = Mirror(api, self._pods_path, read_pod, selection=pods, changed=self.roster.changed)
        self._hpas = Mirror(api, f"{apis}/autoscaling/v2/{within}/horizontalpodautoscalers", read_hpa)
        self._scaled = Mirror(
            api, f"{apis}/keda.sh/v1alpha1/{within}/scaledobjects", read_scaled_object, optional=True
        )
        self._budgets = Mirror(api, f"{apis}/policy/v1/{within}/poddisruptionbudgets", read_budget)
        told = (
            f"involvedObject.kind={self._spec.kind},involvedObject.name={self._spec.name},reason=FailedCreate"
        )
        self._refusals = Mirror(
            api, f"/api/v1/{within}/events", read_refusal, selection={"fieldSelector": told}, optional=True
        )
        self._mirrors = [
            self._targets, self._pods, self._hpas, self._scaled, self._budgets, self._refusals
        ]  # fmt: skip
        self._tasks = [asyncio.create_task(mirror.follow()) for mirror in self._mirrors]

    def _target_changed(self, _before: Sized | None, after: Sized | None) -> None:
        if after is not None and not _older(after.version, self.sized.version):
            self._see(after)

    def _see(self, sized: Sized) -> None:
        self.sized = sized
        self.roster.asked(sized.replicas)
        if sized.rolling:
            self.roster.rolls()

    def _rivals(self) -> list[Rival | None]:
        return [*self._hpas.objects.values(), *self._scaled.objects.values()]

    def _live(self) -> list[Pod]:
        return [pod for pod in self._pods.objects.values() if not pod.ended]

    def _lingering(self) -> list[Pod]:
        """All but those that came to the gate lately: it is opened in a moment."""
        lately_s = time.time() - _GATED_FOR_S
        return [pod for pod in self._live() if pod.created_at_s < lately_s or not pod.why.startswith(GATED)]

    def _refusal(self) -> str:
        """Why the target's controller makes no pods, when some are missing; the latest that it said.

        A Deployment tells it as a condition of its own, all others in events.
        """
        missing = self.sized.replicas > len(self._live())
        if self.sized.hindrance or not missing or not self._refusals.objects:
            return self.sized.hindrance
        latest = max(self._refusals.objects.values(), key=lambda refusal: refusal.at_s)
        recent = latest.at_s > time.time() - _REFUSAL_FOR_S
        return latest.message if recent else ""


def _older(version: str, than: str) -> bool:
    """Whether a copy is behind. Versions are numbers in every API server there is, though none need be."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
