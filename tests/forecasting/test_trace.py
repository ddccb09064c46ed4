"""Traces as users have them: out of order, with gaps, negative, too short."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from services.cli.forecast import duration_s, forecast
from services.forecaster.report import iso
from services.forecaster.trace import TraceInvalid, read_trace
from tests.forecasting.worlds import STEP_S, rhythm


def trace(path: Path, rows: list[tuple[object, object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("timestamp", "rate"))
        writer.writerows(rows)
    return path


def test_rows_out_of_order_are_sorted_and_that_is_told(tmp_path: Path) -> None:
    history, mended = read_trace(trace(tmp_path / "t.csv", [(60, 2.0), (0, 1.0), (120, 3.0)]))

    assert history.rates.tolist() == [1.0, 2.0, 3.0]
    assert mended == ("rows were out of order and have been sorted",)


def test_negative_missing_and_absent_rates_are_gaps(tmp_path: Path) -> None:
    rows: list[tuple[object, object]] = [(0, 1.0), (60, -5), (120, "nan"), (180, ""), (300, 2.0)]

    history, mended = read_trace(trace(tmp_path / "t.csv", rows))

    np.testing.assert_array_equal(np.isnan(history.rates), [False, True, True, True, True, False])
    assert mended == ("3 rows without a usable rate are gaps",)


def test_a_coarser_step_averages_and_a_finer_one_is_refused(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.csv", [(60 * i, float(i)) for i in range(10)])

    assert read_trace(path, step_s=300.0)[0].rates.tolist() == [2.0, 7.0]
    with pytest.raises(TraceInvalid, match="cannot be finer"):
        read_trace(path, step_s=10.0)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "no rows"),
        ("a,b\nc,d\n", "neither ISO"),
        ("1\n", "expected"),
        ("timestamp,host,rate\n1,a\n", "expected"),
        ("timestamp,host\n1,a\n2,b\n", "no usable rate"),
        ("timestamp,rate\n1711238400000,1\n", "milliseconds"),
        ('1,"' + "x" * 200_000, "not CSV"),
    ],
    ids=["empty", "words", "one column", "short row", "no rates", "milliseconds", "open quote"],
)
def test_a_file_that_is_no_trace_says_why(tmp_path: Path, content: str, what: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)

    with pytest.raises(TraceInvalid, match=what):
        read_trace(path)


@pytest.mark.parametrize(
    "content",
    [
        "rate,timestamp\n2,0\n3,60\n",
        "timestamp,host,rate\n0,a,2\n60,b,3\n",
        "\ufeff0,2\n60,3\n",
        "t,v\n0,2\n60,3\n",
    ],
    ids=["other order", "more columns", "byte order mark", "other names"],
)
def test_columns_are_where_the_header_says(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content, encoding="utf-8")

    history, mended = read_trace(path)

    assert (history.start_s, history.step_s, history.rates.tolist()) == (0.0, 60.0, [2.0, 3.0])
    assert mended == ()


def test_an_infinite_rate_is_a_gap_that_is_told(tmp_path: Path) -> None:
    assert read_trace(trace(tmp_path / "t.csv", [(0, 1.0), (60, "inf")]))[1] == (
        "1 rows without a usable rate are gaps",
    )


def test_durations_as_people_write_them() -> None:
    assert duration_s("90s") == 90
    with pytest.raises(typer.BadParameter):
        duration_s("soon")


OUTPUTS = {"json": "json", "predictions": "csv", "html": "html"}


def predicted(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


app = typer.Typer()
app.command()(forecast)


def test_a_backtest_is_written_for_people_and_machines(tmp_path: Path) -> None:
    rates = rhythm(5)
    path = trace(tmp_path / "week.csv", [(STEP_S * i, rate) for i, rate in enumerate(rates)])
    files = {name: tmp_path / f"out.{name}" for name in ("json", "csv", "html")}

    ran = CliRunner().invoke(
        app,
        [str(path), "--model", "regression", "--model", "steady-window", "--test-days", "1"]
        + [f"--{option}={files[name]}" for option, name in OUTPUTS.items()],
    )

    assert ran.exit_code == 0, ran.output
    models = {"served", "regression", "steady-window", "last-value", "mean-max", "seasonal"}
    assert all(model in ran.output for model in models), "whole, in 80 columns"
    summary = json.loads(files["json"].read_text())
    assert summary["served_over_best_untrained"]["q95_pinball"] < 1.02
    page = files["html"].read_text()
    assert "<svg" in page
    assert "served 1800 s ahead" in page
    rows = predicted(files["csv"])
    assert {row["model"] for row in rows} == models
    assert all(row["at"] >= row["issued_at"] for row in rows)
    assert all(row["issued_at"] >= summary["trained_to"] for row in rows)
    at_once = {(row["model"], row["issued_at"]) for row in rows if row["at"] == row["issued_at"]}
    assert at_once == {(row["model"], row["issued_at"]) for row in rows}, "the first bin to come is forecast"
    actual = {iso(STEP_S * i): rate for i, rate in enumerate(rates)}
    assert all(float(row["actual"]) == pytest.approx(actual[row["at"]], rel=1e-4) for row in rows)
    first = rows[0]
    assert float(first["q95"]) >= float(first["q50"])


def test_predictions_do_not_depend_on_what_came_after_them(tmp_path: Path) -> None:
    rates = rhythm(5)
    other = rates.copy()
    other[-100:] *= 3.0
    written = []
    for name, series in (("one", rates), ("two", other)):
        path = trace(tmp_path / f"{name}.csv", [(STEP_S * i, rate) for i, rate in enumerate(series)])
        out = tmp_path / f"{name}.out"
        ran = CliRunner().invoke(
            app, [str(path), "--model", "regression", "--test-days", "1", "--predictions", str(out)]
        )
        assert ran.exit_code == 0, ran.output
        written.append(predicted(out))

    changed_at = iso((len(rates) - 100) * STEP_S)
    before = [
        [
            (r["model"], r["issued_at"], r["at"], r["q50"], r["q95"])
            for r in rows
            if r["issued_at"] <= changed_at
        ]
        for rows in written
    ]
    assert len(before[0]) > 1000
    assert before[0] == before[1]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--timezone", "Mars/Base"], "'Mars/Base' is no time zone"),
        (["--test-days", "-1"], "give a number of seasons above 0"),
        (["--test-days", "nan"], "give a number of seasons above 0"),
        (["--test-days", "inf"], "give a number of seasons above 0"),
        (["--train-cpu-s", "0"], "give a number of CPU-seconds above 0"),
        (["--season", "5m"], "less than two bins"),
    ],
)
def test_options_that_make_no_sense_say_so(tmp_path: Path, options: list[str], why: str) -> None:
    path = trace(tmp_path / "t.csv", [(STEP_S * i, rate) for i, rate in enumerate(rhythm(2))])

    ran = CliRunner().invoke(app, [str(path), "--model", "regression", *options])

    assert ran.exit_code == 2, ran.output
    assert why in " ".join(ran.output.split())


def test_a_trace_that_ends_before_the_test_says_so(tmp_path: Path) -> None:
    rows = [(STEP_S * i, rate) for i, rate in enumerate(rhythm(2))]
    path = trace(tmp_path / "t.csv", [*rows, (40 * 86_400, 1.0)])

    ran = CliRunner().invoke(app, [str(path), "--model", "regression"])

    assert ran.exit_code == 2, ran.output
    assert "nothing was measured while models were tested" in " ".join(ran.output.split())


def test_a_model_is_trained_once_and_a_light_one_is_there_anyway(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.csv", [(STEP_S * i, rate) for i, rate in enumerate(rhythm(4))])
    options = ["regression", "seasonal", "Regression"]

    ran = CliRunner().invoke(app, [str(path), *(f"--model={name}" for name in options)])

    assert ran.exit_code == 0, ran.output
    assert ran.output.count("regression  ") == 1
    assert "left out" not in ran.output


def test_a_trace_that_is_too_short_says_what_to_do(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.csv", [(300 * i, 1.0) for i in range(20)])

    ran = CliRunner().invoke(app, [str(path), "--model", "regression"])

    assert ran.exit_code == 2
    assert "too short" in ran.output
