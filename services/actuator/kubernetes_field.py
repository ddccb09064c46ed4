"""A size that a kind without `/scale` keeps in a field of its own: where, what goes with it, what bounds it.

No I/O. What the kinds do was read in their sources (docs/pools.md): the operator of a RayCluster keeps a
worker group between its minReplicas and maxReplicas, and takes away whom `workersToDelete` names; an elastic
JobSet or Job wants as many completions as parallelism, and one at least.
"""

from __future__ import annotations

from typing import Any

from services.actuator.kubernetes_api import Object
from services.control.errors import Rejected

_PARALLEL = "/parallelism"


def pointed(found: Any, pointer: str) -> Any:
    """What a JSON pointer points to.

    >>> pointed({"spec": {"groups": [{"replicas": 3}]}}, "/spec/groups/0/replicas")
    3
    """
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (LookupError, ValueError, TypeError) as error:
            raise Rejected(
                f"{pointer} is not there in the target: mend pool.kubernetes.replicas_path"
            ) from error
    return found


def companions(found: Object, pointer: str) -> tuple[str, ...]:
    """The fields that have to say the same number as the one at `pointer`.

    >>> companions({"spec": {"parallelism": 2, "completions": 2}}, "/spec/parallelism")
    ('/spec/completions',)
    """
    told = pointed(found, _group(pointer)).get("completions") if pointer.endswith(_PARALLEL) else None
    return () if told is None else (_beside(pointer, "completions"),)


def bounds(found: Object, pointer: str) -> tuple[int, int | None]:
    """The fewest and the most that the kind's own controller lets the field mean; None is no such limit.

    >>> group = {"replicas": 3, "minReplicas": 1, "maxReplicas": 8}
    >>> bounds({"spec": {"groups": [group]}}, "/spec/groups/0/replicas")
    (1, 8)
    """
    group = pointed(found, _group(pointer))
    least, most = group.get("minReplicas"), group.get("maxReplicas")
    paired = 1 if companions(found, pointer) else 0
    return paired if least is None else int(least), None if most is None else int(most)


def patch(
    pointer: str, replicas: int, *, beside: tuple[str, ...], version: str, leaving: tuple[str, ...] | None
) -> list[dict[str, Any]]:
    """JSON patch that sets the size if nothing changed since `version`.

    `leaving` names the pods of a RayCluster's group that go; None where nobody can be named. Who was named
    before is forgotten by it: the operator takes them away whatever the size is.
    """
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        *({"op": "replace", "path": path, "value": replicas} for path in (pointer, *beside)),
    ]
    if leaving is not None:
        named = {"workersToDelete": list(leaving)}
        operations.append({"op": "add", "path": _beside(pointer, "scaleStrategy"), "value": named})
    return operations


def _group(pointer: str) -> str:
    return pointer.rpartition("/")[0]


def _beside(pointer: str, name: str) -> str:
    return f"{_group(pointer)}/{name}"
