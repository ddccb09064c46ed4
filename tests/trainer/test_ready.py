"""Telling the platform that a process is ready, and never before it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.main import app
from services.trainer.ready import READY_FILE, not_ready_yet, say_ready


@pytest.mark.parametrize("command", [["worker", "--worker-id", "w-1"], ["shard"]], ids=lambda words: words[0])
def test_a_process_that_is_started_again_is_not_ready_because_the_one_before_was(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a container that crashed: its files outlive the process, and so would its readiness."""
    ready = tmp_path / "ready"
    ready.touch()
    monkeypatch.setenv(READY_FILE, str(ready))

    CliRunner().invoke(app, [*command, "--job", "clicks", "--config", str(tmp_path / "missing.yaml")])

    assert not ready.exists()


def test_readiness_is_a_file_and_without_a_name_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(READY_FILE, raising=False)
    not_ready_yet()
    say_ready()
    monkeypatch.setenv(READY_FILE, str(tmp_path / "ready"))
    not_ready_yet()
    say_ready()

    assert [path.name for path in tmp_path.iterdir()] == ["ready"]
