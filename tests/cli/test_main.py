"""The entry point knows every command."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import typer

import services.cli
from services.cli.main import COMMANDS


def test_every_command_that_was_written_can_be_called() -> None:
    modules = {module.name for module in pkgutil.iter_modules(services.cli.__path__)}
    found = {name: getattr(importlib.import_module(f"services.cli.{name}"), name, None) for name in modules}
    # A command prints and returns nothing; what commands share returns something.
    written = {
        name
        for name, thing in found.items()
        if isinstance(thing, typer.Typer) or (callable(thing) and thing.__annotations__["return"] == "None")
    }

    assert written == set(COMMANDS)


def test_a_worker_starts_without_solvers_and_compiler() -> None:
    """Either takes about as long to load as all that a worker needs."""
    heavy = "import sys, services.cli.worker; print({'scipy.optimize', 'numba'} & sys.modules.keys())"

    loaded = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "set()"
