"""A trace of traffic: `timestamp,rate` rows, read strictly.

A row's rate holds from its timestamp to the next row's: that is the row's bin.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.simulator.errors import TraceInvalid

Floats = NDArray[np.float64]

TIME_NAMES = ("timestamp", "time", "second", "at_s")
RATE_NAMES = ("rate", "rate_per_s")

GAP_OF_REGULAR = 1.5
"""In a regular trace a step this many times the usual one is a gap."""
GAP_OF_IRREGULAR = 10.0
"""In an irregular trace steps differ anyway: only a very long one is a gap."""


SECONDS_MAX = 1e11
"""Past the year 5000: a time in other units than seconds."""
VOID, VOID_ROWS = 10, 1000
"""A gap of this many times the rest is no gap; a short trace may have one of this many times its step."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Bins of traffic: bin i covers [starts_s[i], starts_s[i+1]), the last one ends at `end_s`.

    `native_step_s` is the usual width of a bin as the file had it. `filled` counts the bins
    that were missing or had no number, and were interpolated.
    """

    name: str
    starts_s: Floats
    rates: Floats
    end_s: float
    native_step_s: float
    filled: int = 0

    @property
    def span_s(self) -> float:
        """How long the trace lasts."""
        return self.end_s - float(self.starts_s[0])

    @property
    def is_native_minute(self) -> bool:
        """Whether its seconds need no made-up noise: its own step is a minute or less."""
        return self.native_step_s <= 60.0


def read_trace(path: Path) -> Trace:
    """The trace in a CSV file.

    The header names a time column (`timestamp`; seconds or ISO 8601, UTC unless it says
    otherwise) and a `rate` column; more columns are ignored. An empty or NaN rate, and
    rows missing from the grid, are gaps: interpolated, and counted. Everything
    else that is wrong raises TraceInvalid with the line.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            times, rates, lines = _rows(file, str(path))
    except OSError as error:
        raise TraceInvalid(str(path), f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceInvalid(str(path), f"is not UTF-8 text: {error.reason}") from error
    except csv.Error as error:
        raise TraceInvalid(str(path), f"is not CSV: {error}") from error
    _refuse_a_void(times, lines, str(path))
    return trace_of(path.stem, times, rates, source=str(path))


def trace_of(name: str, times: list[float], rates: list[float], *, source: str = "") -> Trace:
    """The trace with these bins; NaN rates and holes in the grid are filled and counted."""
    source = source or name
    if len(times) < 2:
        raise TraceInvalid(source, "has one row; at least two are needed to know how long a row lasts")
    starts, values = np.array(times), np.array(rates)
    if np.all(np.isnan(values)):
        raise TraceInvalid(source, "has no number in its rate column")
    step = float(np.median(np.diff(starts)))
    starts, values = _with_holes(starts, values, step)
    unknown = np.isnan(values)
    values[unknown] = np.interp(starts[unknown], starts[~unknown], values[~unknown])
    return Trace(name, starts, values, float(starts[-1]) + step, step, int(unknown.sum()))


def _refuse_a_void(times: list[float], lines: list[int], source: str) -> None:
    """A gap to be filled with many times what there is: a slip of a timestamp, or two traces in one file."""
    if len(times) < 3:
        return
    steps = np.diff(times)
    widest = int(np.argmax(steps))
    if steps[widest] > VOID * float(np.median(steps)) * max(len(times), VOID_ROWS):
        void = f"comes {steps[widest]:.3g} s after the row above, far longer than the whole rest lasts"
        raise TraceInvalid(source, f"timestamp {times[widest + 1]:.15g} {void}", line=lines[widest + 1])


def _rows(file: object, source: str) -> tuple[list[float], list[float], list[int]]:
    reader = csv.reader(file)  # type: ignore[arg-type]  # any iterable of lines
    header = next(reader, None)
    if header is None:
        raise TraceInvalid(source, "is empty; expected a header `timestamp,rate` and rows")
    time_at, rate_at = _columns([name.strip().lower() for name in header], source)
    times: list[float] = []
    rates: list[float] = []
    lines: list[int] = []
    for row in reader:
        if not any(cell.strip() for cell in row):
            continue
        line = reader.line_num
        if len(row) <= max(time_at, rate_at):
            raise TraceInvalid(source, f"has {len(row)} column(s), the header has {len(header)}", line=line)
        at_s = _time(row[time_at].strip(), source, line)
        if times and at_s <= times[-1]:
            what = "repeats" if at_s == times[-1] else "goes back before"
            raise TraceInvalid(source, f"timestamp {row[time_at]!r} {what} the row above", line=line)
        times.append(at_s)
        rates.append(_rate(row[rate_at].strip(), source, line))
        lines.append(line)
    if not times:
        raise TraceInvalid(source, "has a header and no rows")
    return times, rates, lines


def _columns(header: list[str], source: str) -> tuple[int, int]:
    def find(names: tuple[str, ...]) -> int:
        for name in names:
            if name in header:
                return header.index(name)
        raise TraceInvalid(
            source,
            f"no column is called `{names[0]}`; the header has {', '.join(map(repr, header))}. "
            "Expected `timestamp,rate` (rate per second)",
            line=1,
        )

    return find(TIME_NAMES), find(RATE_NAMES)


def _time(text: str, source: str, line: int) -> float:
    try:
        at_s = float(text)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise TraceInvalid(
                source, f"timestamp {text!r} is neither seconds nor ISO 8601", line=line
            ) from None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(at_s):
        raise TraceInvalid(source, f"timestamp {text!r} is not a finite number", line=line)
    if abs(at_s) > SECONDS_MAX:
        raise TraceInvalid(source, f"timestamp {text!r} is not in seconds; milliseconds?", line=line)
    return at_s


def _rate(text: str, source: str, line: int) -> float:
    if not text:
        return math.nan
    try:
        rate = float(text)
    except ValueError:
        raise TraceInvalid(source, f"rate {text!r} is not a number", line=line) from None
    if math.isinf(rate):
        raise TraceInvalid(source, f"rate {text!r} is not finite", line=line)
    if rate < 0:
        raise TraceInvalid(source, f"rate {text!r} is negative", line=line)
    return rate


def _with_holes(starts: Floats, values: Floats, step: float) -> tuple[Floats, Floats]:
    """The bins with unknown ones (NaN) put where the grid misses some."""
    steps = np.diff(starts)
    regular = np.mean(np.abs(steps - step) <= 0.01 * step) >= 0.9
    longest = step * (GAP_OF_REGULAR if regular else GAP_OF_IRREGULAR)
    holes = np.flatnonzero(steps > longest)
    if holes.size == 0:
        return starts, values
    missing = [np.arange(starts[i] + step, starts[i + 1] - step / 2, step) for i in holes]
    all_starts = np.concatenate([starts, *missing])
    all_values = np.concatenate([values, np.full(sum(map(len, missing)), np.nan)])
    order = np.argsort(all_starts, kind="stable")
    return all_starts[order], all_values[order]
