"""A fleet read from the labels of a cluster's nodes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from services.actuator.kubernetes_nodes import fleet_of
from services.cli.main import app
from services.settings.fleet import FleetContents


def node(
    name: str, labels: dict[str, str], *, gpus: str = "8", ready: bool = True, cordoned: bool = False
) -> Any:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": True} if cordoned else {},
        "status": {
            "capacity": {"nvidia.com/gpu": gpus, "cpu": "64"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }


def product(name: str) -> dict[str, str]:
    return {"nvidia.com/gpu.product": name, "topology.kubernetes.io/zone": "z1"}


NODES = [
    node("b", {**product("A100"), "topology.kubernetes.io/rack": "r7"}),
    node("a", product("A100"), ready=False),
    node("c", product("T4"), gpus="4", cordoned=True),
    node("plain", {}, gpus="2"),
    {"metadata": {"name": "no-gpus"}, "status": {"capacity": {"cpu": "8"}}},
]


def test_nodes_with_gpus_become_a_fleet_and_those_that_cannot_be_used_are_lost() -> None:
    contents = fleet_of(NODES)
    terms = contents.terms()

    assert terms is not None
    assert terms.budget.declared == {"A100": 16, "T4": 4, "gpu": 2}
    assert terms.budget.gpus == {"A100": 8, "T4": 0, "gpu": 2}
    assert contents.nodes["b"].within == ["z1", "r7"]
    assert contents.lost == ["a", "c"]


class _Nodes(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert self.path.startswith("/api/v1/nodes?")
        body = json.dumps({"items": NODES, "metadata": {"resourceVersion": "1"}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test's output is its own."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    server = HTTPServer(("127.0.0.1", 0), _Nodes)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    file = tmp_path / "kubeconfig"
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    yield file
    server.shutdown()
    thread.join()
    server.server_close()


def test_what_is_discovered_is_a_fleet_file(kubeconfig: Path) -> None:
    found = CliRunner().invoke(app, ["fleet", "discover", "--kubeconfig", str(kubeconfig)])

    assert found.exit_code == 0, found.output
    assert FleetContents.model_validate(yaml.safe_load(found.stdout)) == fleet_of(NODES)


def test_a_cluster_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["fleet", "discover", "--kubeconfig", str(tmp_path / "none")])

    assert refused.exit_code == 3
    assert "kubeconfig" in refused.stderr
