"""Every command in the documentation exists, takes the options that it is given, and is run by some test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from services.cli.main import app
from tests.deploy.documented import (
    PAGES,
    ROOT,
    RUN_BY,
    Command,
    commands,
    commands_in_other_blocks,
    mentioned,
)

_RUN_BY_INTEGRATION = {"up", "exec", "ps", "down"}


@pytest.mark.parametrize("command", list(commands()), ids=str)
def test_a_command_of_the_documentation_exists(command: Command) -> None:
    program, *words = command.words
    check = {
        "make": _is_a_target,
        "penstock": _is_of_penstock,
        ".venv/bin/penstock": _is_of_penstock,
        "docker": _is_of_docker,
    }
    if program in check:
        check[program](words)
    elif program == "kubectl":
        assert "need a cluster" in command.page.read_text(encoding="utf-8")
        assert "-k" not in words or (ROOT / words[words.index("-k") + 1] / "kustomization.yaml").exists()
    else:
        assert program in ("export", "curl", "openssl"), f"nobody knows whether {program} works"


@pytest.mark.parametrize("command", [one for page in PAGES for one in mentioned(page)], ids=str)
def test_a_command_within_a_sentence_exists(command: Command) -> None:
    program, *words = command.words
    (_is_a_target if program == "make" else _is_of_penstock)(words)


@pytest.mark.parametrize("what", RUN_BY)
def test_whoever_is_said_to_run_a_command_does(what: str) -> None:
    *_, word = what.split()
    text = (ROOT / RUN_BY[what]).read_text(encoding="utf-8")

    assert re.search(rf"\b{word}\b", text), f"{RUN_BY[what]} runs no {what}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_stands_where_it_would_not_be_checked(page: Path) -> None:
    assert commands_in_other_blocks(page) == []


def _is_a_target(words: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{words[0]}:", makefile, re.M)


def _is_of_penstock(words: list[str]) -> None:
    """The command, or the command of a group, takes these options."""
    names = [word for word in words if not word.startswith("-")]
    path: list[str] = []
    if names:
        group = get_command(app).get_command(None, names[0])  # type: ignore[attr-defined]
        assert group is not None, names[0]
        path = names[:2] if hasattr(group, "commands") else names[:1]
    asked = CliRunner().invoke(app, [*path, "--help"], terminal_width=200)
    assert asked.exit_code == 0, asked.output
    for option in (word for word in words if word.startswith("--")):
        assert re.search(rf"{option.partition('=')[0]}\b", asked.output), f"{path} has no {option}"


def _is_of_docker(words: list[str]) -> None:
    if words[0] == "compose":
        assert words[1] in _RUN_BY_INTEGRATION
    else:
        assert words[0] == "build"
        stages = re.findall(r" AS (\S+)$", (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8"), re.M)
        assert words[words.index("--target") + 1] in stages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_in_examples_are_yaml(page: Path) -> None:
    for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        assert yaml.safe_load(block)
