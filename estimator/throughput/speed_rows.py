"""The table that a model learns from: how fast busy workers trained, by pool size and load."""

from __future__ import annotations

import math
from dataclasses import dataclass

from estimator.throughput.scalability import SpeedPoint
from estimator.throughput.window import Point

MEMORY = 60.0
"""Windows that a row's mean remembers."""
SETTLED = 5.0
"""Windows after which a row's mean is worth comparing with."""
ROWS_MAX = 48
LOAD_BANDS = 4
STALE_S = 8 * 86_400.0
"""A row not seen for longer than a week, with a day to spare, says little of today."""
MISFIT_SD = 0.015
"""No law is exact: however often a row was seen, it is believed no better than this."""
SURPRISE_MAX = 0.25
"""The most that one window moves the log speed of a settled row, before its weight: a lie is bounded."""


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """Windows with one pool size and about one load, as running means."""

    workers: int
    band: int
    """Which quarter of full load."""
    count: float
    busy: float
    log_speed: float
    at_s: float

    def seen(self, point: Point, at_s: float) -> SpeedRow:
        """One window more."""
        count = min(self.count + 1, MEMORY)
        surprise = point.log_speed - self.log_speed
        if self.count >= SETTLED:
            surprise = min(max(surprise, -SURPRISE_MAX), SURPRISE_MAX)
        return SpeedRow(
            self.workers,
            self.band,
            count,
            self.busy + (point.busy - self.busy) / count,
            self.log_speed + surprise / count,
            at_s,
        )

    def as_point(self, noise_sd: float) -> SpeedPoint:
        """For the fit; `noise_sd` is that of one window."""
        sd = math.sqrt(MISFIT_SD**2 + noise_sd**2 / self.count)
        return SpeedPoint(float(self.workers), self.busy, self.log_speed, sd)


def band_of(point: Point) -> int:
    """0 to LOAD_BANDS - 1."""
    return min(int(LOAD_BANDS * point.busy / point.workers), LOAD_BANDS - 1)


def row_for(rows: tuple[SpeedRow, ...], point: Point) -> SpeedRow | None:
    """The row that this point belongs to, if there is one."""
    band = band_of(point)
    for row in rows:
        if row.workers == point.workers and row.band == band:
            return row
    return None


def learned(rows: tuple[SpeedRow, ...], point: Point, at_s: float) -> tuple[SpeedRow, ...]:
    """The rows with this point in them, most recently seen first, never more than ROWS_MAX."""
    known = row_for(rows, point)
    if known is None:
        fresh = SpeedRow(point.workers, band_of(point), 1.0, point.busy, point.log_speed, at_s)
    else:
        fresh = known.seen(point, at_s)
    others = (row for row in rows if row is not known and at_s - row.at_s <= STALE_S)
    return (fresh, *others)[:ROWS_MAX]
