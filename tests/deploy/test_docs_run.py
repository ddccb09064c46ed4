"""The documentation's commands for operators, run as they are written, page by page."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import yaml
from typer.testing import CliRunner

from services.cli.main import app
from services.logs import configure_logs
from services.settings.root import LogSettings
from tests.deploy.documented import PAGES, Command, commands
from tests.web.conftest import Served

WRITTEN_ADDRESS = "http://127.0.0.1:8080"


@pytest.fixture
def served() -> Iterator[Served]:
    """A controller that knows the job `clicks`; its log must not mix with what commands print."""
    configure_logs(LogSettings(level="error"))
    served = Served()
    served.tick()
    yield served
    served.end()
    structlog.reset_defaults()


class Terminal:
    """Where an operator types: a directory with the files that the pages name, and a controller to ask."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._env = {"PENSTOCK_SERVER": served.url, "PENSTOCK_TOKEN": served.token(), "COLUMNS": "200"}

    def run(self, command: Command) -> None:
        program, *words = command.words
        if program == "curl":
            self._curl(words)
        elif program != "export":  # server and token are those of this test
            self._penstock(words)

    def _penstock(self, words: list[str]) -> None:
        words = [self._token_id() if word == "ID" else word for word in words]
        done = CliRunner().invoke(app, words, env=self._env, input="y\n" * ("delete" in words))
        assert done.exit_code == 0, f"{' '.join(words)}: {done.output}"

    def _curl(self, words: list[str]) -> None:
        flag, header, address = words
        name, _, value = header.replace("$PENSTOCK_TOKEN", self._env["PENSTOCK_TOKEN"]).partition(": ")
        assert flag == "-H"
        request = urllib.request.Request(
            address.replace(WRITTEN_ADDRESS, self._served.url), headers={name: value}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert json.load(answer)

    def _token_id(self) -> str:
        listed = CliRunner().invoke(app, ["token", "list", "--config", "penstock.yaml", "--json"])
        return str(json.loads(listed.stdout)[0]["id"])


@pytest.fixture
def terminal(
    served: Served, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    monkeypatch.chdir(tmp_path)
    jobs = {"jobs": {"clicks": {"topic": "clicks-raw"}}}
    Path("penstock.yaml").write_text(yaml.safe_dump({"redis": {"url": redis_url}, **jobs}), encoding="utf-8")
    Path("jobs.yaml").write_text(yaml.safe_dump(jobs), encoding="utf-8")
    yield Terminal(served)
    assert set(os.listdir()) <= {"penstock.yaml", "jobs.yaml", "saved.json"}


def run_here(page: Path) -> list[Command]:
    return [command for command in commands(page) if command.run_by is None and not command.takes_hours]


@pytest.mark.parametrize("page", [page for page in PAGES if run_here(page)], ids=lambda page: page.name)
def test_the_commands_of_a_page_work_one_after_the_other(page: Path, terminal: Terminal) -> None:
    for command in run_here(page):
        terminal.run(command)
