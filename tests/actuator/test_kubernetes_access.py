"""The ways to be let in by an API server."""

from __future__ import annotations

import json
import ssl
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.actuator import kubernetes_access
from services.actuator.kubernetes_access import NoAccess, find_access
from tests.waiting import eventually


def kubeconfig(directory: Path, user: dict[str, Any]) -> Path:
    path = directory / "config"
    document = {
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "train"}},
            {"name": "there", "context": {"cluster": "d", "user": "u"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://c:6443/", "insecure-skip-tls-verify": True}},
            {"name": "d", "cluster": {"server": "https://d:6443"}},
        ],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_a_token_of_a_kubeconfig(tmp_path: Path) -> None:
    access = find_access(kubeconfig(tmp_path, {"token": "secret"}))

    assert (access.server, access.namespace, access.token.value()) == ("https://c:6443", "train", "secret")
    assert not access.tls.check_hostname


def test_a_context_can_be_chosen_and_certificates_are_checked_unless_told_otherwise(tmp_path: Path) -> None:
    access = find_access(kubeconfig(tmp_path, {"token": "secret"}), "there")

    assert (access.server, access.namespace, access.tls.check_hostname) == ("https://d:6443", "default", True)


def test_a_token_file_is_read_again_once_the_server_refuses_it(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n", encoding="utf-8")
    token = find_access(kubeconfig(tmp_path, {"tokenFile": "token"})).token
    assert token.value() == "old"
    file.write_text("new\n", encoding="utf-8")
    assert token.value() == "old"

    token.refused()

    assert token.value() == "new"


def test_a_credential_plugin_is_asked_again_when_its_token_lapses(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    lapses = datetime.fromtimestamp(time.time() + 0.05, UTC).isoformat()
    status = json.dumps({"status": {"token": "TOKEN", "expirationTimestamp": lapses}})
    plugin.write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/asked\necho '{status}' | sed \"s/TOKEN/$ROLE-$1/\"\n",
        encoding="utf-8",
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./plugin",
            "args": ["eu"],
            "env": [{"name": "ROLE", "value": "penstock"}],
        }
    }
    token = find_access(kubeconfig(tmp_path, user)).token

    assert token.value() == "penstock-eu"
    eventually(lambda: token.lapsed, what="the token has lapsed")
    assert token.value() == "penstock-eu"
    assert (tmp_path / "asked").read_text(encoding="utf-8") == "x\nx\n"


def test_a_plugin_that_fails_is_named(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}
    token = find_access(kubeconfig(tmp_path, user)).token

    with pytest.raises(
        NoAccess, match="the credential plugin no-such-plugin of the kubeconfig gave no token"
    ):
        token.value()


def test_a_pod_uses_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("mounted", encoding="utf-8")
    (tmp_path / "namespace").write_text("train", encoding="utf-8")
    authority = Path(ssl.get_default_verify_paths().cafile or "")
    if not authority.is_file():
        authority = Path("/etc/ssl/certs/ca-certificates.crt")
    (tmp_path / "ca.crt").write_bytes(authority.read_bytes())
    monkeypatch.setattr(kubernetes_access, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")

    access = find_access()

    assert (access.server, access.namespace, access.token.value()) == (
        "https://[fd00::1]:6443",
        "train",
        "mounted",
    )


def test_no_kubeconfig_is_told_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        NoAccess, match=r"the kubeconfig .*/none cannot be used: .*; set pool.kubernetes.kubeconfig"
    ):
        find_access(tmp_path / "none")


def test_a_context_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match="it has no context 'elsewhere'"):
        find_access(kubeconfig(tmp_path, {}), "elsewhere")
