"""What learned models look at: ratios to the level of now, in logarithms.

Every feature is a logarithm of a ratio of rates (or a time of day), and so is what
is predicted: traffic ten times as large has the same features. An offset of a
twentieth of the day's level is added before each logarithm, so zeros survive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecasting.analogs import analogs_of
from forecasting.batch import SEASONS_BACK, SEASONS_LIKE, Batch
from forecasting.calendar import DAY_S, Calendar
from forecasting.grid import KINDS, PEAK, RATE, Grid
from forecasting.history import Rates
from forecasting.residuals import Indices, highest_from
from forecasting.trailing import highest_along

OFFSET_SHARE = 0.05
_SEASONS = (1, 2, 3, SEASONS_BACK)
"""Seasons that are looked at one by one; all up to the last are averaged."""
COMMON = 24
"""Features of a row."""
PER_LEAD = 14
"""Features of a row that differ by lead."""


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Where a row stands: predictions are logarithms of (rate + offset) / (now + offset)."""

    now: Rates
    """Mean of the last half hour."""
    offset: Rates

    def to_log(self, rates: Rates) -> Rates:
        """(rows, ...) in rates to (rows, ...) in log ratios."""
        now, offset = self._shaped(rates)
        return np.asarray(np.log(rates + offset) - np.log(now + offset))

    def to_rates(self, logs: Rates) -> Rates:
        """Back again. Ratios are bounded: e^4 is fifty times the level of now."""
        now, offset = self._shaped(logs)
        return np.asarray(np.maximum(np.exp(np.clip(logs, -6.0, 4.0)) * (now + offset) - offset, 0.0))

    def _shaped(self, like: Rates) -> tuple[Rates, Rates]:
        shape = (-1,) + (1,) * (like.ndim - 1)
        return self.now.reshape(shape), self.offset.reshape(shape)

    @property
    def weight(self) -> Rates:
        """What an error in logarithms costs in rates, 1 on average."""
        scale = self.now + self.offset
        return np.asarray(scale / max(float(scale.mean()), 1e-300))


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Inputs of a learned model."""

    level: Level
    common: Rates
    """(rows, COMMON)"""
    by_lead: Rates
    """(rows, leads, PER_LEAD)"""
    analogs: Rates
    """(rows, inputs_of_analogs): how the seasons that were most like today went on."""

    def select(self, rows: Indices | slice) -> Features:
        """Some of the rows."""
        level = Level(self.level.now[rows], self.level.offset[rows])
        return Features(level, self.common[rows], self.by_lead[rows], self.analogs[rows])

    def stacked(self) -> Rates:
        """(rows, leads, COMMON + PER_LEAD)"""
        leads = self.by_lead.shape[1]
        common = np.broadcast_to(self.common[:, None, :], (len(self.common), leads, COMMON))
        return np.concatenate([common, self.by_lead], axis=2)


def level_of(batch: Batch) -> Level:
    grid = batch.grid
    day = batch.mean(-min(grid.season, grid.bins(1440)), 0)
    return Level(batch.mean(-grid.bins(30), 0), OFFSET_SHARE * day + 1e-12)


def describe(batch: Batch, calendar: Calendar) -> Features:
    """The features of every row."""
    level = level_of(batch)
    clocks = [_clock_moved(batch, calendar, seasons) for seasons in range(1, SEASONS_LIKE + 1)]
    return Features(
        level,
        _common(batch, level),
        _by_lead(batch, level, calendar, clocks),
        analogs_of(batch, level.offset, clocks),
    )


def _common(batch: Batch, level: Level) -> Rates:
    grid = batch.grid
    means = [batch.mean(-1, 0), batch.mean(-2, -1), batch.mean(-3, -2)]
    means += [batch.mean(-grid.bins(units), 0) for units in (3, 5, 10, 15, 60, 120, 360, 1440)]
    means += [batch.mean(-2 * grid.bins(units), -grid.bins(units)) for units in (5, 15, 30, 60)]
    tops = [batch.highest(grid.bins(units)) for units in (15, 30, 60, 180)]
    rough = [batch.roughness(grid.bins(units)) for units in (15, 30, 120, 1440)]
    logs = level.to_log(np.stack(means + tops, axis=1))
    # Roughness has a floor of its own: a smooth series is 1 % rough, not minus infinity.
    noise = np.log(np.stack(rough, axis=1) / (level.now + level.offset)[:, None] + 0.01)
    fresh = (batch.known >= grid.season).astype(np.float64)
    return np.concatenate([logs, noise, fresh[:, None]], axis=1)


def _by_lead(batch: Batch, level: Level, calendar: Calendar, clocks: list[Indices | int]) -> Rates:
    tops = highest_along(batch.rates, batch.grid.width)
    columns = [
        np.stack(
            [*_seasons_ago(batch, level, int(lead), tops, clocks), *_time_of(batch, calendar, int(lead))],
            axis=1,
        )
        for lead in batch.grid.leads
    ]
    return np.stack(columns, axis=1)


def _clock_moved(batch: Batch, calendar: Calendar, seasons: int) -> Indices | int:
    """Bins by which the clocks were put forward since some seasons ago, where seasons are days."""
    grid = batch.grid
    if calendar.timezone == "UTC" or grid.season_s % DAY_S:
        return 0
    span_s = seasons * grid.season_s
    now_s, then_s = calendar.local_s(batch.ends_s), calendar.local_s(batch.ends_s - span_s)
    return np.asarray(np.round((now_s - then_s - span_s) / grid.step_s), dtype=np.int64)


def _seasons_ago(
    batch: Batch, level: Level, lead: int, tops: Rates, clocks: list[Indices | int]
) -> list[Rates]:
    """What came at the same time of the seasons before.

    A season that is not known looks like the mean of those that are: a young topic
    must not look like one whose traffic stood still.
    """
    looks = [
        _season_ago(batch, level, lead, _bins_back(batch.grid, lead, seasons) - clocks[seasons - 1], tops)
        for seasons in range(1, SEASONS_BACK + 1)
    ]
    values = np.stack([look[0] for look in looks])  # (seasons, 3, rows)
    known = np.stack([look[1] for look in looks])[:, None, :]
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0.0).sum(axis=0) / count
    values = np.where(known, values, mean)
    ratios, absolute = values[:, 0], values[:, 1]
    return [
        *(ratios[seasons - 1] for seasons in _SEASONS),
        absolute[0],
        absolute[-1],
        mean[0],
        np.sqrt(((ratios - mean[0]) ** 2).sum(axis=0) / count[0]),
        mean[2],
    ]


def _bins_back(grid: Grid, lead: int, seasons: int) -> int:
    """A season shorter than the horizon is looked up in whole seasons that have passed."""
    reach = lead + max(grid.bins(15) // 2 + 1, grid.width)
    return grid.season * (seasons - 1 + max(1, -(-reach // grid.season)))


def _season_ago(
    batch: Batch, level: Level, lead: int, back: Indices | int, tops: Rates
) -> tuple[Rates, NDArray[np.bool_]]:
    """(3, rows): what followed the level of then, how it stands to the level of now, and the
    highest of the interval from there on over the level of then; and where that is known."""
    grid, around = batch.grid, batch.grid.bins(15) // 2
    came = batch.mean(lead - around - back, lead + around + 1 - back)
    then = np.log(batch.mean(-grid.bins(30) - back, -back) + level.offset)
    at = np.maximum(batch.end - back + lead + grid.width - 1, 0)
    logs = np.log(came + level.offset)
    top = np.log(tops[batch.row, at] + level.offset)
    looked = np.stack([logs - then, logs - np.log(level.now + level.offset), top - then])
    return looked, batch.known >= back + grid.bins(30)


def _time_of(batch: Batch, calendar: Calendar, lead: int) -> list[Rates]:
    at_s = batch.ends_s + lead * batch.grid.step_s
    turn = 2 * np.pi * calendar.local_s(at_s) / batch.grid.season_s
    return [np.sin(turn), np.cos(turn), np.sin(2 * turn), np.cos(2 * turn), calendar.days_off(at_s)]


def targets_of(batch: Batch, measured: Rates) -> Rates:
    """What came after every row of one series: (rows, KINDS, leads); NaN where it is unknown.

    `measured` is the series as it was, gaps and all: a filled gap is nothing to learn from.
    """
    grid = batch.grid
    at: Indices = batch.end[:, None] + grid.leads[None, :]
    came = np.empty((len(batch), KINDS, len(grid.leads)))
    for kind, series in ((RATE, measured), (PEAK, highest_from(measured, grid.width))):
        came[:, kind] = np.where(at < len(series), series[np.minimum(at, len(series) - 1)], np.nan)
    return came
