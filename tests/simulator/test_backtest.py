"""`penstock backtest`: files in, a table and files out, errors that name line and reason."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from services.cli.backtest import backtest
from services.simulator.trace import read_trace
from tests.simulator.making import a_day

FIGURES = {
    "late_share", "over_slo_share", "gpu_hours", "over_floor", "over_oracle", "mean_lag", "accumulated_lag",
    "p50_delay_s", "p99_delay_s", "downtime_s", "gpu_utilisation", "resizes",
}  # fmt: skip

PLANT = """
rate_per_worker: 100
contention: 0.01
startup_s: {median: 60, p90: 180}
pause_s: 2
shuffle: {group: cooperative}
slo_s: 60
workers_min: 1
workers_max: 24
peak_workers: 12
tick_s: 10
warmup_days: 0.1
partitions: 24
skew: 0.2
noise: 0.05
family: retrograde
"""


@pytest.fixture
def command() -> typer.Typer:
    app = typer.Typer()
    app.command()(backtest)
    return app


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "traffic.csv"
    rows = [f"{300 * i},{rate:.3f}" for i, rate in enumerate(a_day(minutes=1440)[::5])]
    path.write_text("timestamp,rate\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def run(command: typer.Typer, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_figures_arrivals_decisions_and_a_page(command: typer.Typer, trace: Path, tmp_path: Path) -> None:
    plant = tmp_path / "plant.yaml"
    plant.write_text(PLANT, encoding="utf-8")
    out = {name: tmp_path / f"out.{name}" for name in ("json", "html")}
    arrivals, decisions = tmp_path / "arrivals.csv", tmp_path / "decisions.csv"

    result = run(
        command, trace, "--policy", "hpa:target=0.7", "--policy", "reactive", "--plant", plant, "--jobs", 1,
        "--days", 0.3, "--json", out["json"], "--html", out["html"], "--arrivals", arrivals,
        "--decisions", decisions,
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    assert "hpa:target=0.7" in result.output
    content = json.loads(out["json"].read_text())
    assert {name: row["forecaster"] for name, row in content["policies"].items()} == {
        "hpa:target=0.7": None,
        "reactive": None,
    }
    assert content["plant"]["partitions"] == 24
    assert content["trace"]["native_step_s"] == 300.0
    assert set(content["policies"]) == {"hpa:target=0.7", "reactive"}
    assert all(figures.keys() >= FIGURES for figures in content["policies"].values())
    page = out["html"].read_text()
    assert page.count("<svg") == 1 + 2 * 2
    assert "http://" not in page
    assert "https://" not in page
    scored_minutes = round(content["trace"]["scored_days"] * 1440)
    assert len(read_trace(arrivals).rates) == scored_minutes
    with (tmp_path / "decisions.reactive.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["second", "workers", "standbys"]
    assert rows[0]["second"] == "0"
    assert len(rows) == content["policies"]["reactive"]["resizes"] + 1


def test_arrivals_can_be_judged_again_and_give_the_same(
    command: typer.Typer, trace: Path, tmp_path: Path
) -> None:
    first, second, arrivals = tmp_path / "1.json", tmp_path / "2.json", tmp_path / "arrivals.csv"
    plant = tmp_path / "plant.yaml"
    plant.write_text("rate_per_worker: 100\nwarmup_days: 0\n", encoding="utf-8")
    options = ("--policy", "static-max", "--plant", plant, "--jobs", 1, "--no-oracle")

    assert run(command, trace, *options, "--json", first, "--arrivals", arrivals).exit_code == 0
    assert run(command, arrivals, *options, "--json", second).exit_code == 0

    one, two = (json.loads(path.read_text())["policies"]["static-max"] for path in (first, second))
    assert {name: one[name] for name in FIGURES} == pytest.approx({name: two[name] for name in FIGURES})


def test_on_a_narrow_terminal_no_figure_is_cut_off(command: typer.Typer, trace: Path) -> None:
    long_name = "reactive:utilisation=0.8,catch_up_s=120,settle_s=600"

    result = run(
        command, trace, "--policy", long_name, "--policy", "hpa:target=0.7", "--days", 0.1, "--no-oracle",
    )  # fmt: skip

    table = result.stdout.split("note:")[0]
    assert "…" not in table
    assert all(
        option in table for option in ("reactive:", "utilisation=0.8,", "settle_s=600", "hpa:target=0.7")
    )


def test_a_frontier_is_read_across(command: typer.Typer, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"

    result = run(
        command, trace, "--policy", "static-max", "--frontier", "--baseline", "static-mean", "--no-oracle",
        "--days", 0.1, "--jobs", 2, "--json", out,
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    assert "read across against static-mean" in result.output
    frontier = json.loads(out.read_text())["frontier"]
    assert {ratio["policy"] for ratio in frontier["read_across"]} == {"static-max", "static-mean"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "magic"], "no policy is called 'magic'"),
        (["--policy", "hpa:goal=1"], "no option goal"),
        (["--policy", "hpa:target"], "not option=number"),
        (["--forecaster", "crystal-ball"], "no forecaster 'crystal-ball'"),
        (["--plant", "nowhere.yaml"], "cannot be read"),
        (["--days", "nan"], "--days is nan; it must be more than 0"),
        (["--days", "-1"], "--days is -1; it must be more than 0"),
    ],
)
def test_what_was_asked_wrongly_is_named(
    command: typer.Typer, trace: Path, arguments: list[str], said: str
) -> None:
    result = run(command, trace, *arguments)

    assert result.exit_code == 2
    assert said in result.output


def test_days_without_end_are_all_there_are(command: typer.Typer, trace: Path) -> None:
    result = run(command, trace, "--policy", "static-max", "--jobs", 1, "--no-oracle", "--days", "inf")

    assert result.exit_code == 0, result.output
    assert "0.5 days scored" in result.output


@pytest.mark.parametrize("output", ["--json", "--arrivals", "--decisions", "--html"])
def test_a_file_that_cannot_be_written_is_named_before_any_work(
    command: typer.Typer, trace: Path, tmp_path: Path, output: str
) -> None:
    for path, said in ((tmp_path / "no" / "out", "there is no directory"), (tmp_path, "is a directory")):
        result = run(command, trace, "--policy", "static-max", "--jobs", 1, output, path)

        assert result.exit_code == 2
        assert said in result.output
        assert "days scored" not in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fleet", "builtin:small", "--html", "report.html"], "--html can do nothing beside --fleet"),
        (["--fleet", "builtin:small", "--frontier"], "--frontier can do nothing beside --fleet"),
        (["--replay", "run.json", "--json", "out.json"], "--json can do nothing beside --replay"),
        (["--replay", "run.json", "--policy", "hpa"], "--policy can do nothing beside --replay"),
    ],
)
def test_an_option_that_can_do_nothing_is_named(
    command: typer.Typer, arguments: list[str], said: str
) -> None:
    result = run(command, *arguments)

    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("days", ["nan", "inf", "-1"])
def test_days_that_make_no_sense_for_a_fleet_are_named(command: typer.Typer, days: str) -> None:
    result = run(command, "--fleet", "builtin:small", "--days", days)

    assert result.exit_code == 2
    assert f"--days is {days}; it must be a number above 0" in result.output


def test_a_file_for_a_fleet_that_cannot_be_written_is_named_before_any_work(
    command: typer.Typer, tmp_path: Path
) -> None:
    result = run(command, "--fleet", "builtin:small", "--json", tmp_path / "no" / "out.json")

    assert result.exit_code == 2
    assert "there is no directory" in result.output


def test_a_bad_line_is_named(command: typer.Typer, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("timestamp,rate\n0,1\n60,-5\n", encoding="utf-8")

    result = run(command, path)

    assert result.exit_code == 2
    assert "line 3: rate '-5' is negative" in result.output


def test_a_peak_beyond_the_largest_pool_is_said(command: typer.Typer, tmp_path: Path) -> None:
    trace, plant = tmp_path / "peak.csv", tmp_path / "plant.yaml"
    trace.write_text("timestamp,rate\n" + "".join(f"{60 * i},500\n" for i in range(60)), encoding="utf-8")
    plant.write_text("rate_per_worker: 100\nworkers_max: 2\nwarmup_days: 0\n", encoding="utf-8")

    result = run(command, trace, "--policy", "reactive", "--plant", plant, "--jobs", 1)

    assert result.exit_code == 0, result.output
    assert "100.00% of the minutes are beyond what 2 workers can train" in result.output


def test_without_a_plant_the_peak_needs_a_pool_worth_judging(command: typer.Typer, tmp_path: Path) -> None:
    trace, figures = tmp_path / "small.csv", tmp_path / "figures.json"
    rows = [f"{60 * i},{1 + i % 30}" for i in range(600)]  # far less than one worker trains
    trace.write_text("timestamp,rate\n" + "\n".join(rows) + "\n", encoding="utf-8")

    result = run(command, trace, "--policy", "static-max", "--jobs", 1, "--no-oracle", "--json", figures)

    assert "its peak needs 20 workers" in result.output
    assert json.loads(figures.read_text())["plant"]["peak_workers"] == 20


def test_without_a_trace_it_says_what_to_give(command: typer.Typer) -> None:
    result = run(command)

    assert result.exit_code == 2
    assert "TRACE.csv" in result.output


def test_constant_zero_traffic_is_judged(command: typer.Typer, tmp_path: Path) -> None:
    trace = tmp_path / "zero.csv"
    trace.write_text("timestamp,rate\n" + "".join(f"{60 * i},0\n" for i in range(120)), encoding="utf-8")

    result = run(command, trace, "--jobs", 1, "--json", tmp_path / "out.json")

    assert result.exit_code == 0, result.output
    policies = json.loads((tmp_path / "out.json").read_text())["policies"]
    assert all(figures["late_share"] == 0 for figures in policies.values())
    assert np.isfinite([figures["gpu_hours"] for figures in policies.values()]).all()


def test_each_row_says_whose_forecasts_it_used(command: typer.Typer, trace: Path, tmp_path: Path) -> None:
    plant, out = tmp_path / "plant.yaml", tmp_path / "out.json"
    plant.write_text(PLANT, encoding="utf-8")

    result = run(
        command, trace, "--policy", "kale", "--policy", "kale@served:hold_s=0", "--policy", "static-mean",
        "--plant", plant, "--days", 0.1, "--jobs", 1, "--no-oracle", "--json", out,
    )  # fmt: skip

    assert result.exit_code == 0, result.output
    rows = json.loads(out.read_text())["policies"]
    used = {name: row["forecaster"] for name, row in rows.items()}
    assert used == {"kale": "light", "kale@served:hold_s=0": "served", "static-mean": None}
    assert "forecasts by light: kale" in result.output
    assert "forecasts by served: kale@served:hold_s=0" in result.output


@pytest.mark.parametrize("policy", ["kale@crystal", "kale@"])
def test_a_forecaster_that_there_is_not_ends_it_before_any_work(
    command: typer.Typer, trace: Path, policy: str
) -> None:
    result = run(command, trace, "--policy", policy)

    assert result.exit_code == 2
    assert "forecaster" in result.output
