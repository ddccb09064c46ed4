"""What pods take of their nodes and nodes can give, from Kubernetes' own quantities. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.fleet.machines import Amounts
from services.actuator.kubernetes_api import Object

GPU_RESOURCE = "nvidia.com/gpu"
_GIB = 2.0**30
_SCALES = {
    **{unit: 1024.0**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
    **{unit: 1000.0**power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{unit: 1000.0**-power for power, unit in enumerate(("m", "u", "n"), 1)},
}


def quantity(told: object) -> float:
    """A quantity as Kubernetes writes it; what cannot be read is nothing.

    >>> quantity("250m"), quantity("4Gi") / 2**30, quantity("1e3"), quantity(8)
    (0.25, 4.0, 1000.0, 8.0)
    """
    text = str(told).strip()
    unit = next((unit for unit in _SCALES if text.endswith(unit)), "")
    try:
        return float(text.removesuffix(unit)) * _SCALES.get(unit, 1.0)
    except ValueError:
        return 0.0


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """Cores, memory and GPUs of a list of resources; what else is in it is nobody's concern here."""
    told = resources or {}
    return Amounts(
        quantity(told.get("cpu", 0)),
        quantity(told.get("memory", 0)) / _GIB,
        quantity(told.get(GPU_RESOURCE, 0)),
    )


def requested(spec: Object) -> Amounts:
    """What the scheduler reserves for a pod of this specification.

    Containers run together, those that begin before them one after the other, but for those that stay on
    beside them. Where only a limit is told, the API server takes it for the request.
    """
    together, alone = amounts(spec.get("overhead")), Amounts()
    for one in spec.get("initContainers") or []:
        if one.get("restartPolicy") == "Always":
            together += _asked(one)
            alone = _most(alone, together)
        else:
            alone = _most(alone, together + _asked(one))
    for one in spec.get("containers") or []:
        together += _asked(one)
    return _most(together, alone)


def _asked(container: Object) -> Amounts:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _most(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(
        max(one.cores, other.cores), max(one.memory_gib, other.memory_gib), max(one.gpus, other.gpus)
    )
