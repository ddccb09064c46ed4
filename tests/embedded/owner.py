"""A process that owns a server, to be killed, and ways to see what became of the server."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from services.embedded.ports import is_free
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]


@contextmanager
def owning(script: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """A Python process that runs `script`; the facts it printed as one line of JSON.

    The script has `tell(**facts)`, which prints them and then waits for ever.
    """
    prelude = """
        import json, os, signal, sys, threading
        def tell(**facts):
            print(json.dumps(facts), flush=True)
            signal.pause()
    """
    code = textwrap.dedent(prelude) + textwrap.dedent(script)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"the owner ended with {process.wait()} before it had started its server"
        yield process, json.loads(line)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def gone(pid: int) -> bool:
    """Whether a process has ended, be it reaped or not."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def assert_nothing_remains(facts: dict[str, Any]) -> None:
    """No process of `pids`, no listener on `ports`, nothing at `directory`."""
    for pid in facts.get("pids", []):
        eventually(lambda pid=pid: gone(pid), what=f"the end of process {pid}")  # type: ignore[misc]
    for port in facts.get("ports", []):
        eventually(lambda port=port: is_free(port), what=f"port {port} free")  # type: ignore[misc]
    if "directory" in facts:
        directory = Path(facts["directory"])
        eventually(lambda: not directory.exists(), what=f"{directory} removed")
