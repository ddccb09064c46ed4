"""Where a Kubernetes API server is and how it lets us in: in-cluster, or by a kubeconfig."""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any

import yaml

from services.control.errors import PoolUnavailable

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_FILE_FOR_S = 60.0
"""Kubernetes rotates the tokens that it mounts: they are read afresh this often."""
_EXEC_WITHIN_S = 30.0


class NoAccess(PoolUnavailable):
    """There is no way to the API server, or what leads there cannot be used."""


@dataclass(slots=True)
class Token:
    """A bearer token that is fetched when it is first needed, and again once it has lapsed."""

    fetch: Callable[[], tuple[str, float]]
    """The token and until when it may be used (wall time). Blocks. Raises NoAccess."""
    _held: str = ""
    _until_s: float = field(default=-inf)

    def value(self) -> str:
        """The token now; empty for none. Blocks when it must be fetched."""
        if time.time() >= self._until_s:
            self._held, self._until_s = self.fetch()
        return self._held

    @property
    def lapsed(self) -> bool:
        """Whether `value()` would have to fetch it."""
        return time.time() >= self._until_s

    def refused(self) -> None:
        """The server did not take it: fetch another before the next request."""
        self._until_s = -inf


@dataclass(frozen=True, slots=True)
class Access:
    """All that a client needs to be let in."""

    server: str
    namespace: str
    tls: ssl.SSLContext
    token: Token


def find_access(kubeconfig: Path | None = None, context: str = "") -> Access:
    """By `kubeconfig`; without one, in-cluster, else by KUBECONFIG or ~/.kube/config. Raises NoAccess."""
    if (
        kubeconfig is None
        and (SERVICE_ACCOUNT / "token").exists()
        and "KUBERNETES_SERVICE_HOST" in os.environ
    ):
        return _in_cluster(SERVICE_ACCOUNT, os.environ)
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    path = kubeconfig or Path(named or "~/.kube/config").expanduser()
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return _from_kubeconfig(document, path.parent, context)
    except (OSError, yaml.YAMLError, ssl.SSLError, ValueError, KeyError, TypeError) as error:
        raise NoAccess(
            f"the kubeconfig {path} cannot be used: {error!r}; set pool.kubernetes.kubeconfig"
        ) from error


def _in_cluster(mounted: Path, environ: Mapping[str, str]) -> Access:
    host = environ["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    try:
        namespace = (mounted / "namespace").read_text(encoding="utf-8").strip()
        tls = ssl.create_default_context(cafile=str(mounted / "ca.crt"))
    except (OSError, ssl.SSLError) as error:
        raise NoAccess(f"the service account at {mounted} cannot be used: {error}") from error
    server = f"https://{host}:{environ.get('KUBERNETES_SERVICE_PORT', '443')}"
    return Access(server, namespace, tls, Token(lambda: _token_file(mounted / "token")))


def _from_kubeconfig(document: Mapping[str, Any], beside: Path, context: str) -> Access:
    chosen = _named(document["contexts"], context or document["current-context"], "context")
    cluster = _named(document["clusters"], chosen["cluster"], "cluster")
    user = _named(document.get("users") or [], chosen["user"], "user")
    namespace = chosen.get("namespace") or "default"
    return Access(cluster["server"].rstrip("/"), namespace, _tls(cluster, user, beside), _token(user, beside))


def _named(entries: list[Mapping[str, Any]], name: str, what: str) -> Mapping[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return dict(entry.get(what) or {})
    raise ValueError(f"it has no {what} {name!r}")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], beside: Path) -> ssl.SSLContext:
    data = cluster.get("certificate-authority-data")
    file = cluster.get("certificate-authority")
    tls = ssl.create_default_context(
        cafile=str(beside / file) if file and not data else None,
        cadata=base64.b64decode(data).decode() if data else None,
    )
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    _present_certificate(tls, user, beside)
    return tls


def _present_certificate(tls: ssl.SSLContext, user: Mapping[str, Any], beside: Path) -> None:
    """The client's certificate. Python reads it from files only: inline ones are there for a moment."""
    if "client-certificate" in user:
        tls.load_cert_chain(beside / user["client-certificate"], beside / user["client-key"])
    elif "client-certificate-data" in user:
        pem = b"\n".join(
            base64.b64decode(user[name]) for name in ("client-certificate-data", "client-key-data")
        )
        descriptor = os.memfd_create("client-certificate")
        try:
            os.write(descriptor, pem)
            tls.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)


def _token(user: Mapping[str, Any], beside: Path) -> Token:
    if "exec" in user:
        return Token(lambda: _exec(user["exec"], beside))
    if "tokenFile" in user:
        return Token(lambda: _token_file(beside / user["tokenFile"]))
    return Token(lambda: (str(user.get("token", "")), inf))


def _token_file(path: Path) -> tuple[str, float]:
    try:
        return path.read_text(encoding="utf-8").strip(), time.time() + _TOKEN_FILE_FOR_S
    except OSError as error:
        raise NoAccess(f"the token {path} cannot be read: {error}") from error


def _exec(plugin: Mapping[str, Any], beside: Path) -> tuple[str, float]:
    """What a credential plugin (EKS, GKE, AKS, OIDC) says: an ExecCredential on its standard output."""
    command = str(plugin["command"])
    if os.sep in command:
        command = str(beside / command)
    extra = {one["name"]: one["value"] for one in plugin.get("env") or []}
    info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    env = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        done = subprocess.run(
            [command, *(plugin.get("args") or [])],
            env=env,
            capture_output=True,
            timeout=_EXEC_WITHIN_S,
            check=True,
        )
        status = json.loads(done.stdout)["status"]
        token, lapses = str(status["token"]), status.get("expirationTimestamp")
        return token, inf if lapses is None else datetime.fromisoformat(lapses).timestamp()
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise NoAccess(
            f"the credential plugin {command} of the kubeconfig gave no token: {error!r}"
        ) from error
