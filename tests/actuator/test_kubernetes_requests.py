"""What a pod takes of a node, and whether the node may take it: Kubernetes' own rules, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from estimator.fleet.machines import Amounts
from services.actuator.kubernetes_requests import quantity, requested
from services.actuator.kubernetes_suits import REQUIRED, NodeFace, suits

A_NODE = NodeFace("gpu-1", {"gpu": "a100", "generation": "7"}, ({"key": "spot", "effect": "NoSchedule"},))
TOLERANT: dict[str, Any] = {"tolerations": [{"key": "spot", "operator": "Exists"}]}


def container(cpu: str = "0", memory: str = "0", gpus: str = "0", **more: str) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    return {"resources": {"requests": requests, "limits": {"nvidia.com/gpu": gpus}}, **more}


@pytest.mark.parametrize(
    ("told", "meant"),
    [("2", 2.0), ("1500m", 1.5), ("1Ki", 1024.0), ("1k", 1000.0), ("2.5G", 2.5e9), ("1E", 1e18), ("?", 0.0)],
)
def test_quantities_are_read_as_kubernetes_writes_them(told: str, meant: float) -> None:
    assert quantity(told) == meant


def test_containers_add_up_and_a_limit_stands_for_a_request() -> None:
    spec = {"containers": [container("500m", "2Gi", "1"), container("1", "1Gi")], "overhead": {"cpu": "250m"}}

    assert requested(spec) == Amounts(cores=1.75, memory_gib=3.0, gpus=1.0)


def test_what_runs_before_counts_where_it_is_more_and_what_stays_beside_always() -> None:
    before = [container("4", "1Gi"), container("1", "1Gi", restartPolicy="Always"), container("2", "8Gi")]
    spec = {"initContainers": before, "containers": [container("1", "2Gi", "1")]}

    assert requested(spec) == Amounts(cores=4.0, memory_gib=9.0, gpus=1.0)


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {**TOLERANT, "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expressed(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    "spec",
    [
        TOLERANT,
        {**TOLERANT, "nodeSelector": {"gpu": "a100"}},
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"key": "spot", "effect": "NoSchedule"}]},
        required(expressed("gpu", "In", "t4", "a100")),
        required(expressed("gpu", "In", "t4"), expressed("generation", "Gt", "6")),
        required(expressed("zone", "DoesNotExist")),
        required(expressed("gpu", "NotIn", "t4")),
        required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}),
    ],
)
def test_a_node_that_matches_suits(spec: dict[str, Any]) -> None:
    assert suits(A_NODE, spec)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoExecute"}]},
        {"tolerations": [{"key": "spot", "value": "yes"}]},
        {**TOLERANT, "nodeSelector": {"gpu": "t4"}},
        required(expressed("gpu", "Exists"), {}) | {"nodeSelector": {"zone": "a"}},
        required({}),
        required(expressed("generation", "Lt", "7")),
        required(expressed("gpu", "Gt", "6")),
        required(expressed("zone", "Exists")),
        required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-2"]}]}),
    ],
)
def test_a_node_that_does_not_match_does_not_suit(spec: dict[str, Any]) -> None:
    assert not suits(A_NODE, spec)
