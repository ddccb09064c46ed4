"""A certificate for this machine that vouches for itself, for as long as a test lasts."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def make_certificate(directory: Path) -> Path:
    """Its file; the key lies beside it, with the suffix `.key`. Skips where openssl is not installed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    made = directory / "server.crt"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=penstock"
    command += f" -addext subjectAltName=IP:127.0.0.1 -keyout {made.with_suffix('.key')} -out {made}"
    subprocess.run(command.split(), check=True, capture_output=True, timeout=120)
    return made
