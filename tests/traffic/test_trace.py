"""A recorded trace is replayed as it was, or refused with the row that is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from services.traffic.trace import TraceInvalid, TraceReplay


def test_rates_hold_from_row_to_row_and_are_scaled() -> None:
    trace = TraceReplay.parse(["timestamp,rate", "100,5", "160,7", "220,1"], scale=10.0)

    assert trace.rates(np.array([99.0, 100.0, 159.9, 160.0, 279.0, 280.0])).tolist() == [0, 50, 50, 70, 10, 0]
    assert (trace.start_s, trace.end_s) == (100.0, 280.0)


def test_dates_are_read_as_utc_unless_they_say_otherwise() -> None:
    rows = ["1970-01-01T00:01:00Z,1", "1970-01-01 00:02:00,2", "1970-01-01T01:03:00+01:00,3"]

    assert TraceReplay.parse(rows).at_s.tolist() == [60.0, 120.0, 180.0]


def test_a_missing_row_or_rate_is_a_gap_in_the_history_and_silence_in_the_replay() -> None:
    trace = TraceReplay.parse(["0,1", "60,2", "120,", "240,5", "300,6"])

    assert np.array_equal(trace.history().rates, [1, 2, np.nan, np.nan, 5, 6], equal_nan=True)
    assert trace.rates(np.array([130.0])).tolist() == [0.0]


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (["0,1", "0,2"], "row 2"),
        (["0,1", "60,-2"], "row 2.*not negative"),
        (["0,1", "60,many"], "row 2.*'many'"),
        (["0,1", "yesterday,1"], "neither seconds nor an ISO date"),
        (["0,1", "60"], "timestamp,rate"),
        (["0,1"], "needs two"),
        (["0,inf", "60,1"], "finite"),
    ],
)
def test_what_cannot_be_a_trace_is_refused_by_row(rows: list[str], complaint: str) -> None:
    with pytest.raises(TraceInvalid, match=complaint):
        TraceReplay.parse(rows)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceInvalid, match=r"nowhere\.csv"):
        TraceReplay.read(tmp_path / "nowhere.csv")


def test_a_header_says_where_the_columns_are() -> None:
    trace = TraceReplay.parse(["rate,timestamp,note", "5,60,a", "7,120,b"])

    assert (trace.at_s.tolist(), trace.values.tolist()) == ([60.0, 120.0], [5.0, 7.0])


def test_milliseconds_are_told_from_seconds() -> None:
    with pytest.raises(TraceInvalid, match=r"row 1: .1700000000000. is not in seconds; milliseconds?"):
        TraceReplay.parse(["1700000000000,5", "1700000060000,5"])


def test_a_slip_of_a_timestamp_is_no_history_of_gaps() -> None:
    rows = ["0,5", *(f"{1_700_000_000 + 60 * n},5" for n in range(10))]
    with pytest.raises(TraceInvalid, match=r"spans [0-9]+ steps of 60 s; is a timestamp wrong"):
        TraceReplay.parse(rows).history()
