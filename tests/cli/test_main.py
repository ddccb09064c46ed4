"""The entry point knows every command."""

from __future__ import annotations

import importlib
import pkgutil

import typer
from typer.testing import CliRunner

import services.cli
from services.cli.main import COMMANDS, app


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


def test_every_command_has_help() -> None:
    for command in COMMANDS:
        shown = CliRunner().invoke(app, [command, "--help"])
        assert shown.exit_code == 0, command
        assert "Usage:" in shown.output
