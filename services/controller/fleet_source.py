"""Where the fleet's machines are read from, so that nobody writes them down by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from services.control.errors import PoolUnavailable
from services.settings.fleet import FleetContents, PlatformSettings

NodeSource = Callable[[], Awaitable[FleetContents]]


def node_source(platform: PlatformSettings) -> NodeSource | None:
    """What tells the nodes there are; None where they are given in the settings."""
    return None if platform.kind == "none" else partial(nodes_from, platform)


async def nodes_from(platform: PlatformSettings) -> FleetContents:
    """The nodes of a Kubernetes or Ray cluster. Raises PoolUnavailable, Rejected."""
    return await (_ray if platform.kind == "ray" else _kubernetes)(platform)


async def _kubernetes(platform: PlatformSettings) -> FleetContents:
    try:
        from services.actuator.kubernetes_nodes import nodes_of_cluster  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise PoolUnavailable(
            f"fleet.platform needs the package {error.name}: the extra `kubernetes`"
        ) from error
    return await nodes_of_cluster(platform.kubeconfig, platform.context)


async def _ray(platform: PlatformSettings) -> FleetContents:
    from services.actuator.ray_nodes import nodes_of_ray  # noqa: PLC0415 - asks for the extra when called

    try:
        return await nodes_of_ray(platform.ray_address)
    except ModuleNotFoundError as error:
        raise PoolUnavailable(f"fleet.platform needs the package {error.name}: the extra `ray`") from error
