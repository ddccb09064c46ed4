"""The Kubernetes manifests below deploy/kubernetes, as they stand and as kustomize renders them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from services.settings import Settings, load_settings
from tests.deploy.queries import DEPLOY

KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"
LAYERS = [BASE, *sorted((KUBERNETES / "overlays").iterdir())]
OWN_KINDS = ("monitoring.coreos.com/", "keda.sh/", "ray.io/")
"""Kinds of others: their schemas come with their operators."""

Manifest = dict[str, Any]


def kubectl() -> str:
    """The program; skips the test where it is not installed."""
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip("kubectl is not installed; get it from your distribution or kubernetes.io")
    return found


def rendered(layer: Path) -> list[Manifest]:
    """What `kubectl apply -k` would send."""
    done = subprocess.run(
        [kubectl(), "kustomize", str(layer)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def written(path: Path) -> Iterator[Manifest]:
    """The documents of a file."""
    yield from yaml.safe_load_all(path.read_text(encoding="utf-8"))


def the(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    """The one of this kind and name."""
    (found,) = (one for one in manifests if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


def containers(manifests: list[Manifest]) -> list[Manifest]:
    """Every container of every Deployment and StatefulSet."""
    return [
        container
        for one in manifests
        if one["kind"] in ("Deployment", "StatefulSet")
        for container in one["spec"]["template"]["spec"]["containers"]
    ]


def variables(container: Manifest) -> dict[str, str]:
    """Those that a container is given as they stand; not those out of secrets or fields."""
    return {one["name"]: one["value"] for one in container.get("env", ()) if "value" in one}


def settings_of(layer: Path) -> Settings:
    """The controller's settings: those of the base, and over them what the layer's own patch says."""
    own = layer / "controller.yaml"
    told = variables(containers(list(written(own)))[0]) if own.exists() else {}
    with patch.dict(os.environ, told):
        return load_settings(BASE / "penstock.yaml")
