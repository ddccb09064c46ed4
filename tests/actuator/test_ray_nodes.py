"""A fleet read from the resources of a Ray cluster's nodes."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from services.actuator.ray_nodes import nodes_of_ray, ray_fleet_of
from services.cli.main import app
from tests.actuator import actors


def node(host: str, number: str, *, alive: bool = True, **resources: float) -> dict[str, Any]:
    return {
        "NodeID": number * 6,
        "Alive": alive,
        "NodeManagerHostname": host,
        "Resources": {name.replace("__", ":"): amount for name, amount in resources.items()} if alive else {},
        "Labels": {"ray.io/availability-zone": "z1"},
    }


def test_nodes_with_gpus_become_a_fleet() -> None:
    contents = ray_fleet_of(
        [
            node("gpu-1", "a", GPU=8.0, accelerator_type__A100=1.0, CPU=64.0),
            node("gpu-2", "b", GPU=4.0, accelerator_type__T4=1.0),
            node("gpu-3", "c", alive=False),
            node("head", "d", CPU=8.0),
            node("plain", "e", GPU=2.0),
        ]
    )

    assert {name: (one.gpu_type, one.gpus) for name, one in contents.nodes.items()} == {
        "gpu-1": ("A100", 8),
        "gpu-2": ("T4", 4),
        "plain": ("gpu", 2),
    }
    assert contents.nodes["gpu-1"].within == ["z1"]


def test_several_nodes_of_one_host_are_told_apart() -> None:
    contents = ray_fleet_of([node("here", "a", GPU=1.0), node("here", "b", GPU=2.0)])

    assert {name: one.gpus for name, one in contents.nodes.items()} == {"here-aaaaaa": 1, "here-bbbbbb": 2}


@pytest.mark.ray
@pytest.mark.filterwarnings("default")
@pytest.mark.skipif(bool(actors.lacking()), reason="needs ray")
async def test_the_nodes_of_a_running_cluster_are_read(ray_address: str) -> None:
    contents = await nodes_of_ray(ray_address)

    assert [one.gpus for one in contents.nodes.values()] == [actors.GPUS_PER_NODE] * 2


def test_without_ray_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "services.actuator.ray_cluster", None)

    told = CliRunner().invoke(app, ["fleet", "discover", "--platform", "ray"])

    assert told.exit_code == 3
    assert "the extra `ray`" in told.stderr
