"""The GPUs of a Ray cluster, from the resources and labels of its nodes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import Any

from services.actuator.apart import Apart
from services.settings.fleet import FleetContents, NodeSettings

GPU_TYPE_RESOURCE = "accelerator_type:"
"""Ray gives a node one of a resource of this name and its type of GPU."""
GPU_TYPE_LABEL = "ray.io/accelerator-type"
PLACE_LABELS = ("ray.io/region", "ray.io/availability-zone")
"""What a node stands in, the outermost first."""


async def nodes_of_ray(address: str = "auto") -> FleetContents:
    """The nodes with GPUs, as a fleet's settings. Raises PoolUnavailable."""
    if find_spec("ray") is None:
        raise ModuleNotFoundError("No module named 'ray'", name="ray")
    return ray_fleet_of(await asyncio.to_thread(_nodes, address))


def ray_fleet_of(nodes: Iterable[Mapping[str, Any]]) -> FleetContents:
    """Nodes with GPUs, by host name; by that and the start of their ids where a host runs several.

    Of a node that has died Ray tells no GPUs: whoever saw it before knows that it is lost. Without a type,
    a node has GPUs of type `gpu`.
    """
    there = {
        name: NodeSettings(
            gpu_type=_gpu_type(node),
            gpus=_gpus(node),
            within=[labels[label] for label in PLACE_LABELS if label in (labels := node.get("Labels") or {})],
        )
        for name, node in named(nodes).items()
    }
    return FleetContents(nodes=dict(sorted(there.items())))


def named(nodes: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The nodes with GPUs that are there, by the names that a fleet knows them by."""
    alive = [node for node in nodes if node.get("Alive") and _gpus(node)]
    hosts = Counter(_host(node) for node in alive)
    return {
        _host(node) if hosts[_host(node)] == 1 else f"{_host(node)}-{str(node['NodeID'])[:6]}": node
        for node in alive
    }


@cache
def _watcher(address: str) -> tuple[Apart, Lock]:
    """Stays connected: a connection takes seconds. Apart, since Ray ends who is connected when it loses its
    head; its process ends with ours."""
    return Apart(f"the Ray cluster at {address}", _connect, address), Lock()


def _connect(address: str) -> object:
    from services.actuator.ray_cluster import RayCluster  # noqa: PLC0415 - an extra

    return RayCluster(address)


def _nodes(address: str) -> Sequence[Mapping[str, Any]]:
    watcher, turn = _watcher(address)
    with turn:
        watcher.reach()
        nodes: Sequence[Mapping[str, Any]] = watcher.call("nodes")
        return nodes


def _host(node: Mapping[str, Any]) -> str:
    return str(node.get("NodeManagerHostname") or node.get("NodeManagerAddress") or node["NodeID"])


def _gpus(node: Mapping[str, Any]) -> int:
    return int((node.get("Resources") or {}).get("GPU", 0))


def _gpu_type(node: Mapping[str, Any]) -> str:
    for resource in sorted(node["Resources"]):
        if resource.startswith(GPU_TYPE_RESOURCE):
            return str(resource.removeprefix(GPU_TYPE_RESOURCE))
    return str((node.get("Labels") or {}).get(GPU_TYPE_LABEL, "gpu"))
