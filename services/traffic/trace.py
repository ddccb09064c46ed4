"""A recorded trace as a traffic shape: `timestamp,rate` rows of a CSV file.

TraceInvalid   the file is not such a trace; the message names the row
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from forecasting.history import Rates, TrafficHistory

TIME_NAME, RATE_NAME = "timestamp", "rate"
SECONDS_MAX = 1e11
"""Past the year 5000: a time in other units than seconds."""
BINS_MAX = 5_000_000


class TraceInvalid(ValueError):
    """The file cannot be read as a trace of rates."""


@dataclass(frozen=True, slots=True, eq=False)
class TraceReplay:
    """Rates that hold from their row's time to the next row's; an empty rate is a gap, replayed as nothing.

    The last row holds as long as the one before it did.

    >>> trace = TraceReplay.parse(["timestamp,rate", "0,5", "60,7"])
    >>> trace.rates(np.array([0.0, 59.0, 60.0, 119.0])), trace.end_s
    (array([5., 5., 7., 7.]), 120.0)
    """

    at_s: NDArray[np.float64]
    values: Rates
    scale: float = 1.0

    @classmethod
    def read(cls, path: Path, *, scale: float = 1.0) -> Self:
        """The trace in this file. Raises TraceInvalid."""
        try:
            with path.open(newline="", encoding="utf-8-sig") as lines:
                return cls.parse(lines, scale=scale, name=str(path))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise TraceInvalid(f"trace {path} cannot be read: {error}") from error

    @classmethod
    def parse(cls, lines: Iterable[str], *, scale: float = 1.0, name: str = "trace") -> Self:
        """Rows of `timestamp,rate`; a timestamp is seconds since the epoch or an ISO date.

        A header says where the two are; without one they come first.
        """
        if not (math.isfinite(scale) and scale > 0):
            raise TraceInvalid(f"{name}: scale is {scale}; it must be a positive number")
        times: list[float] = []
        rates: list[float] = []
        columns = (0, 1)
        for number, row in enumerate(csv.reader(lines), start=1):
            names = [cell.strip().lower() for cell in row]
            if number == 1 and TIME_NAME in names:
                columns = names.index(TIME_NAME), names.index(RATE_NAME) if RATE_NAME in names else 1
                continue
            if not row:
                continue
            at_s, rate = _row(row, columns, f"{name}, row {number}")
            if times and at_s <= times[-1]:
                stamp = row[columns[0]]
                raise TraceInvalid(f"{name}, row {number}: {stamp!r} does not come after the row before it")
            times.append(at_s)
            rates.append(rate)
        if len(times) < 2:
            raise TraceInvalid(f"{name}: {len(times)} rows; a trace needs two at least")
        return cls(np.array(times), np.array(rates), scale)

    @property
    def start_s(self) -> float:
        """When the trace begins."""
        return float(self.at_s[0])

    @property
    def end_s(self) -> float:
        return float(2 * self.at_s[-1] - self.at_s[-2])

    def rates(self, at_s: NDArray[np.float64]) -> Rates:
        row = np.searchsorted(self.at_s, at_s, side="right") - 1
        inside = (row >= 0) & (at_s < self.end_s)
        rates: Rates = np.where(inside, np.nan_to_num(self.values[np.maximum(row, 0)]), 0.0) * self.scale
        return rates

    def history(self) -> TrafficHistory:
        """The whole trace on the grid of its most common step; rows that are missing are gaps.

        Raises TraceInvalid where nearly all of it would be gaps: a slip of a timestamp.
        """
        step_s = float(np.median(np.diff(self.at_s)))
        bins = round((self.end_s - self.start_s) / step_s)
        if bins > BINS_MAX:
            raise TraceInvalid(f"the trace spans {bins} steps of {step_s:g} s; is a timestamp wrong?")
        rates = np.full(bins, np.nan)
        slot = np.round((self.at_s - self.start_s) / step_s).astype(np.int64)
        kept = slot < bins
        rates[slot[kept]] = self.values[kept] * self.scale
        return TrafficHistory(start_s=self.start_s, step_s=step_s, rates=rates)


def _row(row: list[str], columns: tuple[int, int], where: str) -> tuple[float, float]:
    if len(row) <= max(columns):
        raise TraceInvalid(f"{where}: {','.join(row)!r} is not `timestamp,rate`")
    time_at, rate_at = columns
    return _time(row[time_at].strip(), where), _rate(row[rate_at].strip(), where)


def _time(text: str, where: str) -> float:
    try:
        at_s = float(text)
    except ValueError:
        try:
            when = datetime.fromisoformat(text)
        except ValueError as error:
            raise TraceInvalid(f"{where}: {text!r} is neither seconds nor an ISO date") from error
        # A date without a zone is taken as UTC: the machine's own zone would shift the trace.
        at_s = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(at_s):
        raise TraceInvalid(f"{where}: {text!r} is not a time")
    if abs(at_s) > SECONDS_MAX:
        raise TraceInvalid(f"{where}: {text!r} is not in seconds; milliseconds?")
    return at_s


def _rate(text: str, where: str) -> float:
    if text == "" or text.lower() == "nan":
        return math.nan
    try:
        rate = float(text)
    except ValueError as error:
        raise TraceInvalid(f"{where}: rate {text!r} is not a number") from error
    if not (math.isfinite(rate) and rate >= 0):
        raise TraceInvalid(f"{where}: rate {text!r} must be finite and not negative; leave a gap empty")
    return rate
