"""The GPUs of a Kubernetes cluster, from the labels of its nodes: so that nobody writes them down by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from services.actuator.kubernetes_access import find_access
from services.actuator.kubernetes_api import KubernetesApi, Object
from services.actuator.kubernetes_pods import GPU_TYPE_LABELS
from services.actuator.kubernetes_requests import GPU_RESOURCE
from services.settings.fleet import FleetContents, NodeSettings

PLACE_LABELS = (
    "topology.kubernetes.io/zone",
    "network.topology.nvidia.com/spine",
    "topology.kubernetes.io/rack",
    "network.topology.nvidia.com/leaf",
)
"""What a node stands in, the outermost first."""


async def nodes_of_cluster(kubeconfig: Path | None = None, context: str = "") -> FleetContents:
    """The nodes with GPUs, as a fleet's settings. Raises PoolUnavailable, Rejected."""
    api = KubernetesApi(find_access(kubeconfig, context))
    try:
        found, _ = await api.list("/api/v1/nodes", {})
    finally:
        await api.close()
    return fleet_of(found)


def fleet_of(nodes: Iterable[Object]) -> FleetContents:
    """Nodes with GPUs, by name; those that are not ready, or take no pods, are lost.

    Without a label for the type of its GPUs, a node has GPUs of type `gpu`.
    """
    there: dict[str, NodeSettings] = {}
    lost: list[str] = []
    for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
        name, labels = str(node["metadata"]["name"]), node["metadata"].get("labels") or {}
        status = node.get("status") or {}
        gpus = max(_gpus(status.get("capacity")), _gpus(status.get("allocatable")))
        if not gpus:
            continue
        there[name] = NodeSettings(
            gpu_type=next((labels[label] for label in GPU_TYPE_LABELS if label in labels), "gpu"),
            gpus=gpus,
            within=[labels[label] for label in PLACE_LABELS if label in labels],
        )
        if not usable(node):
            lost.append(name)
    return FleetContents(nodes=there, lost=lost)


def _gpus(resources: Mapping[str, Any] | None) -> int:
    count = str((resources or {}).get(GPU_RESOURCE, "0"))
    return int(count) if count.isdecimal() else 0


def usable(node: Object) -> bool:
    """Whether it is ready and takes pods."""
    if (node.get("spec") or {}).get("unschedulable"):
        return False
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
