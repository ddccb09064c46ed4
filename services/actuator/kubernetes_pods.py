"""Pods as workers: what phase they are in, and what keeps them from being ready. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.actuator.kubernetes_api import Object
from services.control.types import WorkerPhase

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
GPU_TYPE_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "gpu")
GATED = "SchedulingGated"
"""Kubernetes' reason for a pod that waits at a scheduling gate."""
_STILL_WELL = ("ContainerCreating", "PodInitializing")
_CRASHING = "CrashLoopBackOff"
_REASON_LENGTH = 240
_USUAL_GRACE_S = 30.0
"""What a pod gets to leave when its template does not say."""


@dataclass(frozen=True, slots=True)
class Pod:
    """What the pool needs of a pod."""

    uid: str
    name: str
    phase: WorkerPhase
    ended: bool
    """It has run its course (evicted, preempted, completed) and only its record is left."""
    created_at_s: float
    restarts: int
    node: str
    gpu_type: str
    deletion_cost: str
    grace_s: float
    """From SIGTERM to SIGKILL."""
    why: str
    """What keeps it from being ready, in the platform's words; empty when nothing does."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event: a pod could not even be made, as when a quota is used up."""

    at_s: float
    message: str


def read_refusal(event: Object) -> Refusal:
    """A FailedCreate event."""
    told = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return Refusal(datetime.fromisoformat(told).timestamp(), _words("", event.get("message", "")))


def read_pod(pod: Object) -> Pod:
    """The pod as a worker."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    containers = status.get("containerStatuses") or []
    selector = spec.get("nodeSelector") or {}
    ended = status.get("phase") in ("Failed", "Succeeded")
    why = _why(status, [*(status.get("initContainerStatuses") or []), *containers])
    return Pod(
        uid=metadata["uid"],
        name=metadata["name"],
        phase=_phase(metadata, status, ended=ended, why=why),
        ended=ended,
        created_at_s=datetime.fromisoformat(metadata["creationTimestamp"]).timestamp(),
        restarts=sum(int(one.get("restartCount", 0)) for one in containers),
        node=spec.get("nodeName") or "",
        gpu_type=next((selector[label] for label in GPU_TYPE_LABELS if label in selector), ""),
        deletion_cost=(metadata.get("annotations") or {}).get(DELETION_COST, ""),
        grace_s=read_grace_s(spec),
        why=why,
    )


def read_grace_s(spec: Object) -> float:
    """How long a pod of this specification gets to leave."""
    return float(spec.get("terminationGracePeriodSeconds", _USUAL_GRACE_S))


def tell_pending(pods: Iterable[Pod]) -> str:
    """Why pods are not ready: the commonest reason, an example, and how many more there are.

    Empty when no pod is in trouble.
    """
    stuck = [pod for pod in pods if pod.why and not pod.ended and pod.phase is not WorkerPhase.DRAINING]
    if not stuck:
        return ""
    (why, count), *others = Counter(pod.why for pod in stuck).most_common()
    example = min(pod.name for pod in stuck if pod.why == why)
    named = f"pod {example}" if count == 1 else f"{count} pods ({example}, ...)"
    more = f" (and {sum(number for _, number in others)} more for other reasons)" if others else ""
    return f"{named}: {why}{more}"


def _phase(metadata: Object, status: Object, *, ended: bool, why: str) -> WorkerPhase:
    if metadata.get("deletionTimestamp"):
        return WorkerPhase.DRAINING
    if ended or why.startswith(_CRASHING):
        return WorkerPhase.FAILED
    ready = _condition(status, "Ready")
    return WorkerPhase.READY if ready.get("status") == "True" else WorkerPhase.STARTING


def _why(status: Object, containers: list[Any]) -> str:
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return _words(scheduled.get("reason", "Unschedulable"), scheduled.get("message", ""))
    for one in containers:
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason and reason not in _STILL_WELL:
            return _words(reason, waiting.get("message", "") or _last_end(one))
    if status.get("phase") == "Failed":
        return _words(status.get("reason", "Failed"), status.get("message", ""))
    return ""


def _last_end(container: Object) -> str:
    ended = (container.get("lastState") or {}).get("terminated") or {}
    return f"last ended with {ended['reason']}, code {ended.get('exitCode')}" if "reason" in ended else ""


def _words(reason: str, message: str) -> str:
    told = f"{reason}: {message}" if reason and message else reason or message
    return " ".join(told.split())[:_REASON_LENGTH]


def _condition(status: Object, kind: str) -> Object:
    return next((one for one in status.get("conditions") or [] if one.get("type") == kind), {})
