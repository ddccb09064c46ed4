"""The entry point knows every command."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys

import pytest
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


@pytest.mark.parametrize(("given", "used"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "4"}, "4")])
def test_commands_count_with_one_thread_unless_told_otherwise(given: dict[str, str], used: str) -> None:
    """Threads that wait for one another use up the CPU-seconds that a network has to be trained in."""
    told = (
        "import os, sys, services.cli.main; print(os.environ['OPENBLAS_NUM_THREADS'], 'numpy' in sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}

    said = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, check=True, env=environment | given
    ).stdout

    assert said.split() == [used, "False"], "numpy reads it when it is imported"
