"""Whether a node may take a pod at all, by what both of them say: labels, affinity, taints. No I/O.

What depends on other pods, as spreading and their affinities do, is left to the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.actuator.kubernetes_api import Object

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_KEEP_OFF = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class NodeFace:
    """What a node shows to a pod that looks for one."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Object] = ()


def suits(node: NodeFace, spec: Object) -> bool:
    """Whether the scheduler could put a pod of this specification there, were all of it free."""
    wanted = spec.get("nodeSelector") or {}
    if any(node.labels.get(label) != value for label, value in wanted.items()):
        return False
    terms = required_terms(spec)
    if terms and not any(_matches(node, term) for term in terms):
        return False
    tolerations = spec.get("tolerations") or []
    return all(
        any(_tolerates(one, taint) for one in tolerations)
        for taint in node.taints
        if taint.get("effect") in _KEEP_OFF
    )


def required_terms(spec: Object) -> list[Any]:
    """The terms of which a node has to match one; none where all nodes do."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return list((affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or [])


def _matches(node: NodeFace, term: Object) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False  # an empty term matches nothing
    by_field = {"metadata.name": node.name}
    return all(_holds(one, node.labels) for one in expressions) and all(
        _holds(one, by_field) for one in fields
    )


def _holds(expression: Object, facts: Mapping[str, str]) -> bool:
    found, values = facts.get(str(expression["key"])), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return found in values
        case "NotIn":
            return found not in values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case "Gt" | "Lt" as operator:
            return _compares(found, operator, values)
    return False


def _compares(found: str | None, operator: str, values: Sequence[Any]) -> bool:
    try:
        there, bound = int(str(found)), int(str(values[0]))
    except (ValueError, IndexError):
        return False
    return there > bound if operator == "Gt" else there < bound


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key = toleration.get("key") or ""
    if toleration.get("operator") == "Exists":
        return key in ("", taint.get("key"))
    return key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")
