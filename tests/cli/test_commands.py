"""Every command that is written can be called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.main import COMMANDS, app

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_explains_itself(command: str) -> None:
    asked = CliRunner().invoke(app, [command, "--help"])

    assert asked.exit_code == 0, asked.output
    assert "Usage:" in asked.output


def test_every_command_that_the_documentation_names_is_there() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {
        found
        for page in pages
        for found in re.findall(r"(?:`|bin/|^|: )penstock ([a-z]+)\b", page.read_text(encoding="utf-8"), re.M)
    }

    assert named <= set(COMMANDS)
