"""Telling whoever started this process that it is ready."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

READY_FILE: Final = "PENSTOCK_READY_FILE"
"""Names the file that the process makes once it is ready to work."""


def not_ready_yet() -> None:
    """Take back what an earlier process said here: a container that is started again keeps its files."""
    path = os.environ.get(READY_FILE)
    if path:
        Path(path).unlink(missing_ok=True)


def say_ready() -> None:
    """Make the file that the environment names; without one, say nothing."""
    path = os.environ.get(READY_FILE)
    if path:
        Path(path).touch()
