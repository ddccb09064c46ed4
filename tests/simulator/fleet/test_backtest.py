"""`penstock backtest --fleet`: files in, a table and JSON out, the same for the same seed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from services.cli.backtest import backtest
from services.simulator.fleet.contest import POLICIES, judge_fleet
from services.simulator.fleet.file import FleetFile, load_fleet

FLEET = """
gpu_types:
  a100: {gpus: 5}
  t4: {gpus: 6}
jobs:
  - {name: clicks, tenant: ads, weight: 2, guaranteed: 1, rates: {a100: 300, t4: 100}, peak_workers: 3,
     shape: {peak_hour: 1, diurnal: 0.8}}
  - {name: views, guaranteed: 1, rates: {a100: 250, t4: 120}, peak_workers: 3, shape: {peak_hour: 3}}
  - {name: likes, guaranteed: 2, rates: {t4: 90}, peak_workers: 5, shape: {peak_hour: 2, noise: 0.1}}
  - {name: buys, rates: {t4: 100, a100: 400}, mean_per_s: 150, shape: {peak_hour: 14}}
startup_s: 60
warmup_days: 0.3
settle_h: 0.25
days: 0.08
"""


@pytest.fixture
def command() -> typer.Typer:
    app = typer.Typer()
    app.command()(backtest)
    return app


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET, encoding="utf-8")
    return file


@pytest.fixture
def fleet(path: Path) -> FleetFile:
    return load_fleet(path)


def run(command: typer.Typer, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_every_policy_is_played_on_one_fleet(command: typer.Typer, path: Path, tmp_path: Path) -> None:
    result = run(command, "--fleet", path, "--json", tmp_path / "figures.json")

    assert result.exit_code == 0, result.output
    content = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert list(content["policies"]) == list(POLICIES)
    for name, figures in content["policies"].items():
        assert name in result.output
        assert 0 <= figures["weighted_late_share"] <= 1
        assert figures["gpu_hours"] > 0
        assert set(figures["jobs"]) == {"ads/clicks", "views", "likes", "buys"}
    assert content["policies"]["penstock"]["guarantees_broken"] == 0
    assert content["policies"]["static"]["guarantees_broken"] == 0
    assert content["fleet"]["guaranteed"] == 4


@pytest.mark.parametrize("policy", list(POLICIES))
def test_the_same_seed_gives_the_same_run_and_the_budget_holds(fleet: FleetFile, policy: str) -> None:
    first, again = (judge_fleet("tiny", fleet, [policy], seed=2, days=0.04).judged[0] for _ in range(2))

    assert first.figures == again.figures
    assert np.array_equal(first.run.sizes, again.run.sizes)
    assert first.run.free_least >= 0


def test_one_policy_of_a_built_in_fleet(command: typer.Typer) -> None:
    result = run(command, "--fleet", "builtin:small", "--policy", "static", "--days", "0.02")

    assert result.exit_code == 0, result.output
    assert "builtin:small: 10 jobs on 16 a100, 16 v100" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--fleet", "nowhere.yaml"), "nowhere.yaml: cannot be read"),
        (("--fleet", "builtin:huge"), "no built-in fleet is called 'huge'"),
        (
            ("--fleet", "builtin:small", "--policy", "hpa"),
            "no fleet policy is called 'hpa'; there are penstock",
        ),
        (("trace.csv", "--fleet", "fleet.yaml"), "a fleet file names its own traces"),
    ],
)
def test_what_cannot_be_used_is_named(command: typer.Typer, arguments: tuple[str, ...], said: str) -> None:
    result = run(command, *arguments)

    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
