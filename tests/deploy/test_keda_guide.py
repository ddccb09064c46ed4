"""The KEDA guide: what it makes with openssl is what the overlay's scaler and trigger need."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from tests.deploy.documented import ROOT, commands
from tests.deploy.manifests import KUBERNETES, settings_of, the, written

GUIDE = ROOT / "docs" / "keda.md"
OVERLAY = KUBERNETES / "overlays" / "keda"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Where the guide's commands were run."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    for command in commands(GUIDE):
        if command.words[0] == "openssl":
            subprocess.run(command.words, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    return tmp_path


def address_of_the_scaler() -> str:
    (scaled, _) = written(OVERLAY / "scaledobject.yaml")
    return str(scaled["spec"]["triggers"][0]["metadata"]["scalerAddress"])


def test_a_trigger_trusts_the_certificate_under_the_name_that_it_asks(made: Path) -> None:
    name, _, _ = address_of_the_scaler().partition(":")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(made / "tls.crt", made / "tls.key")
    asking = ssl.create_default_context(cafile=str(made / "tls.crt"))
    here, there = socket.socketpair()
    with here, there:
        server = threading.Thread(target=lambda: serving.wrap_socket(there, server_side=True).close())
        server.start()
        with asking.wrap_socket(here, server_hostname=name) as trusted:
            assert trusted.getpeercert()
        server.join(10)


def test_the_secret_has_every_file_that_the_overlay_names(made: Path) -> None:
    (create,) = (c.words for c in commands(GUIDE) if "penstock-scaler" in c.words)
    files = [word.removeprefix("--from-file=") for word in create if word.startswith("--from-file=")]
    named = {one.partition("=")[0]: one.rpartition("=")[2] for one in files}
    keda = settings_of(OVERLAY).keda
    mounted = {path.name for path in (keda.secret_file, keda.tls_certificate, keda.tls_key) if path}
    trust = the(list(written(OVERLAY / "scaledobject.yaml")), "TriggerAuthentication", "penstock-scaler")

    assert mounted <= named.keys()
    assert {one["key"] for one in trust["spec"]["secretTargetRef"]} <= named.keys()
    assert all((made / file).read_text(encoding="utf-8").strip() for file in named.values())
