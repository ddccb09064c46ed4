"""Read a trace of traffic from a CSV file, whatever state it is in."""

from __future__ import annotations

import csv
import math
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from forecasting.history import TrafficHistory

BINS_MAX = 5_000_000
SECONDS_MAX = 1e11
"""Past the year 5000: a time in other units than seconds."""
TIME_NAME, RATE_NAME = "timestamp", "rate"


class TraceInvalid(Exception):
    """The file cannot be read as a trace. The message names the line and what is expected."""


def read_trace(path: Path, *, step_s: float | None = None) -> tuple[TrafficHistory, tuple[str, ...]]:
    """The trace on a regular grid, and what had to be mended.

    Columns `timestamp,rate`: ISO 8601 (UTC when no offset is given) or seconds since the
    epoch; events per second. A header that names both says where they are; else they are the
    first two. Rows out of order are sorted, rows of one bin averaged,
    negative and missing rates are gaps. `step_s` must not be finer than the trace.
    """
    times, rates, bad = _rows(path)
    if bad == len(times):
        raise TraceInvalid(f"{path} has no usable rate in any row; expected timestamp,rate")
    mended = []
    if bad:
        mended.append(f"{bad} rows without a usable rate are gaps")
    order = np.argsort(times, kind="stable")
    if (np.diff(times) < 0).any():
        mended.append("rows were out of order and have been sorted")
    times, rates = times[order], rates[order]
    distinct = np.unique(times)
    native_s = float(np.median(np.diff(distinct))) if len(distinct) > 1 else (step_s or 60.0)
    if step_s is not None and step_s < native_s * (1 - 1e-6):
        raise TraceInvalid(f"{path} has a step of {native_s:g} s; --step cannot be finer ({step_s:g} s)")
    return _gridded(times, rates, step_s or native_s, path), tuple(mended)


def _gridded(
    times: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    rates: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    step_s: float,
    path: Path,
) -> TrafficHistory:
    start_s = math.floor(times[0] / step_s + 1e-9) * step_s
    bins = np.floor((times - start_s) / step_s + 1e-6).astype(np.int64)
    if bins[-1] >= BINS_MAX:
        raise TraceInvalid(f"{path} spans {bins[-1] + 1} bins of {step_s:g} s; give a coarser --step")
    known = ~np.isnan(rates)
    sums = np.bincount(bins[known], rates[known], minlength=int(bins[-1]) + 1)
    counts = np.bincount(bins[known], minlength=int(bins[-1]) + 1)
    means = np.full(len(sums), np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return TrafficHistory(start_s, step_s, means)


def _rows(
    path: Path,
) -> tuple[
    np.ndarray[tuple[int, ...], np.dtype[np.float64]], np.ndarray[tuple[int, ...], np.dtype[np.float64]], int
]:
    times, rates, bad = [], [], 0
    time_at, rate_at = 0, 1
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, row in enumerate(csv.reader(file), start=1):
                if not row:
                    continue
                if number == 1 and not _is_time(row[0]):
                    time_at, rate_at = _columns(row)
                    continue
                if len(row) <= max(time_at, rate_at):
                    raise TraceInvalid(f"{path}:{number}: expected timestamp,rate; found {row!r}")
                times.append(_seconds(row[time_at], f"{path}:{number}"))
                rate = _number(row[rate_at])
                usable = rate >= 0 and math.isfinite(rate)
                bad += not usable
                rates.append(rate if usable else math.nan)
    except OSError as error:
        raise TraceInvalid(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceInvalid(f"{path} is not UTF-8 text") from error
    except csv.Error as error:
        raise TraceInvalid(f"{path} is not CSV: {error}") from error
    if not times:
        raise TraceInvalid(f"{path} has no rows; expected timestamp,rate")
    return np.array(times), np.array(rates), bad


def _columns(header: list[str]) -> tuple[int, int]:
    names = [name.strip().lower() for name in header]
    if TIME_NAME in names and RATE_NAME in names:
        return names.index(TIME_NAME), names.index(RATE_NAME)
    return 0, 1


def _is_time(text: str) -> bool:
    try:
        _seconds(text, "")
    except TraceInvalid:
        return False
    return True


def _seconds(text: str, where: str) -> float:
    number = _number(text)
    if math.isfinite(number):
        if abs(number) > SECONDS_MAX:
            raise TraceInvalid(f"{where}: {text!r} is not in seconds; milliseconds?")
        return number
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise TraceInvalid(f"{where}: {text!r} is neither ISO 8601 nor seconds") from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
