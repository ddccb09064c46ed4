"""The tutorial, followed to the letter on a shorter and coarser trace."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from services.settings import load_settings
from tests.deploy.documented import ROOT, commands

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PAGE = ROOT / "docs" / "tutorial.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.M | re.S)


def run(*command: str, here: Path) -> str:
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def test_a_newcomer_gets_from_a_trace_to_figures_and_reports(tmp_path: Path) -> None:
    (trace,) = blocks("python")
    for written, shorter in (("days, dice = 5,", "days, dice = 2,"), ("* 1440, 5)", "* 1440, 15)")):
        assert written in trace
        trace = trace.replace(written, shorter)
    run(sys.executable, "-c", trace, here=tmp_path)
    plant, _ = blocks("yaml")
    (tmp_path / "plant.yaml").write_text(plant, encoding="utf-8")

    for command in commands(PAGE):
        program, *words = command.words
        if program.endswith("penstock") and words[0] in ("--version", "backtest", "forecast"):
            run(sys.executable, "-m", "services.cli.main", *words, here=tmp_path)

    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert "penstock" in json.dumps(figures)
    assert all("<html" in (tmp_path / name).read_text().lower() for name in ("report.html", "forecast.html"))


def test_the_settings_of_a_watcher_act_on_nothing(tmp_path: Path) -> None:
    _, settings = blocks("yaml")
    (tmp_path / "penstock.yaml").write_text(settings, encoding="utf-8")

    job = load_settings(tmp_path / "penstock.yaml").jobs["clicks"]

    assert job.scaling.mode == "recommend"
    assert job.pool.kind == "recommend"
    assert job.shuffle.mode == "off", "written without quotes, as anybody would"
    assert job.group == "my-trainer"
