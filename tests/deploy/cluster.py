"""The manifests on the cluster of PENSTOCK_TEST_KUBECONFIG, in a namespace of their own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml

from tests.deploy.manifests import OWN_KINDS, Manifest, kubectl, rendered


@dataclass
class Cluster:
    """What an operator does with kubectl."""

    namespace: str = field(default_factory=lambda: f"penstock-{uuid4().hex[:8]}")

    def apply(self, layer: Path, *arguments: str) -> str:
        """Apply a layer server-side; kinds whose operators are not there are left out."""
        manifests = [
            self._moved(one) for one in rendered(layer) if not one["apiVersion"].startswith(OWN_KINDS)
        ]
        return self.run(
            *("apply", "--server-side", "--validate=strict", *arguments, "-f", "-"),
            given=yaml.safe_dump_all(manifests),
        )

    def make_secret(self) -> None:
        """The one that the manifests refer to."""
        self.run(
            *("create", "secret", "generic", "penstock"),
            *(
                "--from-literal=redis-url=redis://redis:6379/0",
                "--from-literal=admin-token=none-of-your-business",
            ),
        )

    def make_claim(self, name: str) -> None:
        """A bound claim, as the provisioner of a real cluster would leave it: a control plane has none."""
        volume = f"{self.namespace}-{name}"
        size = {"storage": "10Gi"}
        made: list[Manifest] = [
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume, "labels": {"of": self.namespace}},
                "spec": {
                    "capacity": size,
                    "accessModes": ["ReadWriteOnce"],
                    "claimRef": {"namespace": self.namespace, "name": name},
                    "hostPath": {"path": f"/none/{name}"},
                },
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": size},
                    "storageClassName": "",
                    "volumeName": volume,
                },
            },
        ]
        self.run("apply", "-f", "-", given=yaml.safe_dump_all(made))

    def get(self, what: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.run("get", what, "-o", "json"))
        return answer

    def may(self, *what: str) -> bool:
        """Whether the controller's service account may do this here."""
        account = f"system:serviceaccount:{self.namespace}:penstock"
        return self.run("auth", "can-i", *what, "--as", account, expected=(0, 1)).strip() == "yes"

    def kubeconfig_of_the_controller(self, path: Path) -> Path:
        """How the controller's own service account reaches this cluster, and nothing more."""
        config = yaml.safe_load(Path(os.environ["PENSTOCK_TEST_KUBECONFIG"]).read_text(encoding="utf-8"))
        token = self.run("create", "token", "penstock").strip()
        context = next(one for one in config["contexts"] if one["name"] == config["current-context"])
        context["context"] |= {"user": "controller", "namespace": self.namespace}
        config["users"] = [{"name": "controller", "user": {"token": token}}]
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    def run(self, *arguments: str, given: str = "", expected: tuple[int, ...] = (0,)) -> str:
        """What kubectl prints. Raises AssertionError with its complaint."""
        config = os.environ["PENSTOCK_TEST_KUBECONFIG"]
        done = subprocess.run(
            [kubectl(), "--kubeconfig", config, "--namespace", self.namespace, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode in expected, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def _moved(self, manifest: Manifest) -> Manifest:
        manifest["metadata"]["namespace"] = self.namespace
        for subject in manifest.get("subjects", ()):
            subject["namespace"] = self.namespace
        return manifest
