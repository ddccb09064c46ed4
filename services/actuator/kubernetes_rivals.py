"""Who else has a say in a target's size: autoscalers that would fight us, budgets that bind. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.actuator.kubernetes_api import Object

_KEDA_PAUSED = "autoscaling.keda.sh/paused"
_KEDA_PAUSED_AT = "autoscaling.keda.sh/paused-replicas"
_GO_FALSE = ("0", "f", "F", "false", "FALSE", "False")
_KEDA_MOST = 100
"""Its maxReplicaCount where none is given."""


@dataclass(frozen=True, slots=True)
class TargetRef:
    """The object whose size is set."""

    group: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Rival:
    """An autoscaler and what it scales."""

    kind: str
    name: str
    target: TargetRef
    least: int = 0
    most: int | None = None
    """It keeps the target's size between these."""


@dataclass(frozen=True, slots=True)
class Floor:
    """A PodDisruptionBudget's minAvailable, when it is a number.

    A percentage is relative to the size itself, so it is no floor of the size.
    """

    name: str
    least: int
    selector: Object

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Whether pods with these labels are under the budget."""
        wanted: Mapping[str, str] = self.selector.get("matchLabels") or {}
        expressions = self.selector.get("matchExpressions") or []
        return wanted.items() <= labels.items() and all(_holds(one, labels) for one in expressions)


def read_hpa(hpa: Object) -> Rival:
    """A HorizontalPodAutoscaler. One that keeps a single pod may be KEDA's, which takes that away itself."""
    spec = hpa["spec"]
    ref, least = spec["scaleTargetRef"], int(spec.get("minReplicas") or 1)
    target = TargetRef(_group(ref.get("apiVersion", "")), ref["kind"], ref["name"])
    return Rival(
        "HorizontalPodAutoscaler",
        hpa["metadata"]["name"],
        target,
        least=least if least > 1 else 0,
        most=spec.get("maxReplicas"),
    )


def read_scaled_object(scaled: Object) -> Rival | None:
    """A ScaledObject of KEDA; None while it is paused."""
    if _paused(scaled):
        return None
    spec = scaled["spec"]
    ref = spec["scaleTargetRef"]
    group = _group(ref.get("apiVersion") or "apps/v1")
    return Rival(
        "ScaledObject",
        scaled["metadata"]["name"],
        TargetRef(group, ref.get("kind") or "Deployment", ref["name"]),
        least=int(spec.get("minReplicaCount") or 0),
        most=int(spec.get("maxReplicaCount") or _KEDA_MOST),
    )


def read_budget(budget: Object) -> Floor:
    """A PodDisruptionBudget."""
    least = budget["spec"].get("minAvailable")
    return Floor(
        budget["metadata"]["name"],
        least if isinstance(least, int) else 0,
        budget["spec"].get("selector") or {},
    )


def tell_rivals(rivals: Iterable[Rival | None], target: TargetRef) -> str:
    """Why we must not size the target, and what to do; empty when nobody else does."""
    names = sorted(f"{one.kind} {one.name}" for one in rivals if one is not None and one.target == target)
    if not names:
        return ""
    return (
        f"{' and '.join(names)} sizes {target} too, and the two would fight: delete it, or set the job's "
        "mode to recommend"
    )


def bounds_of_rivals(rivals: Iterable[Rival | None], target: TargetRef) -> tuple[int, int | None]:
    """The fewest and the most that those who size the target allow together; None is no limit."""
    sizing = [one for one in rivals if one is not None and one.target == target]
    most = [one.most for one in sizing if one.most is not None]
    return max((one.least for one in sizing), default=0), min(most, default=None)


def highest_floor(floors: Iterable[Floor], labels: Mapping[str, str]) -> Floor | None:
    """The budget that binds pods with these labels the most; None when none does."""
    binding = [floor for floor in floors if floor.least > 0 and floor.covers(labels)]
    return max(binding, key=lambda floor: (floor.least, floor.name), default=None)


def _paused(scaled: Object) -> bool:
    """As KEDA reads it: whatever is not false pauses; at a size given, once the target was brought there."""
    annotations = scaled["metadata"].get("annotations") or {}
    if _KEDA_PAUSED_AT in annotations:
        return (scaled.get("status") or {}).get("pausedReplicaCount") is not None
    return _KEDA_PAUSED in annotations and annotations[_KEDA_PAUSED] not in _GO_FALSE


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    return bool((labels.get(key) in values) == (operator == "In"))


def _group(api_version: str) -> str:
    """
    >>> _group("apps/v1"), _group("v1")
    ('apps', '')
    """
    return api_version.rpartition("/")[0]
