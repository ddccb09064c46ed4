"""Traces: what is read, what is filled, what is refused and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from services.simulator.errors import TraceInvalid
from services.simulator.trace import read_trace


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "traffic.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_iso_times_and_seconds_give_the_same_bins(tmp_path: Path) -> None:
    iso = read_trace(
        written(
            tmp_path,
            "timestamp,rate\n1970-01-01T00:00:00Z,1\n1970-01-01T00:01:00Z,2\n1970-01-01T00:02:00Z,3\n",
        )
    )
    seconds = read_trace(written(tmp_path, "timestamp,rate\n0,1\n60,2\n120,3\n"))

    assert iso.starts_s.tolist() == seconds.starts_s.tolist() == [0.0, 60.0, 120.0]
    assert (iso.span_s, iso.native_step_s, iso.filled) == (180.0, 60.0, 0)


def test_columns_may_come_in_any_order_with_others_between(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, "Rate,host,Timestamp\n5,a,0\n6,b,30\n"))

    assert trace.rates.tolist() == [5.0, 6.0]


def test_missing_rows_and_rates_are_interpolated_and_counted(tmp_path: Path) -> None:
    rows = "".join(f"{60 * i},{i}\n" for i in range(20) if i not in (5, 6))
    trace = read_trace(
        written(
            tmp_path, "timestamp,rate\n" + rows.replace("600,10\n", "600,\n").replace("660,11\n", "660,NaN\n")
        )
    )

    assert trace.filled == 4
    assert np.allclose(trace.rates, np.arange(20))


def test_an_irregular_step_is_not_a_gap(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, "timestamp,rate\n0,1\n60,2\n300,3\n420,4\n1000,5\n1090,6\n"))

    assert trace.filled == 0
    assert len(trace.rates) == 6


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", None, "is empty"),
        ("timestamp,rate\n", None, "no rows"),
        ("timestamp,rate\n0,1\n", None, "one row"),
        ("when,load\n0,1\n60,2\n", 1, "no column is called `timestamp`"),
        ("timestamp,load\n0,1\n60,2\n", 1, "no column is called `rate`"),
        ("timestamp,rate\n0,1\n60,-2\n", 3, "negative"),
        ("timestamp,rate\n0,1\n60,two\n", 3, "not a number"),
        ("timestamp,rate\n0,1\n60,inf\n", 3, "not finite"),
        ("timestamp,rate\n0,1\n60,2\n60,3\n", 4, "repeats"),
        ("timestamp,rate\n0,1\n60,2\n30,3\n", 4, "goes back"),
        ("timestamp,rate\nyesterday,1\n60,2\n", 2, "neither seconds nor ISO"),
        ("timestamp,rate\n0,1\n60\n", 3, "column"),
        ("timestamp,rate\n1700000000000,1\n1700000060000,2\n", 2, "not in seconds"),
        ("timestamp,rate\n0,1\n60,2\n\n120,3\n99999999,4\n", 6, "far longer than the whole rest"),
        ("timestamp,rate\n0,\n60,nan\n", None, "no number"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, text: str, line: int | None, reason: str
) -> None:
    with pytest.raises(TraceInvalid) as caught:
        read_trace(written(tmp_path, text))

    assert reason in str(caught.value)
    assert caught.value.line == line


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")

    with pytest.raises(TraceInvalid, match="cannot be read"):
        read_trace(tmp_path / "nowhere.csv")
    with pytest.raises(TraceInvalid, match="UTF-8"):
        read_trace(tmp_path / "binary.csv")
