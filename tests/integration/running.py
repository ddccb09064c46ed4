"""Commands of Docker, run from the root of the project."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def printed(*command: str, env: Mapping[str, str] | None = None, within_s: float = 120) -> str:
    """What the command prints. Raises AssertionError with its complaint."""
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=within_s, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-2000:]}"
    return done.stdout
