"""What learned models look at: ratios to the level of now, in logarithms.

Every feature is a logarithm of a ratio of rates (or a time of day), and so is what
is predicted: traffic ten times as large has the same features. An offset of a
twentieth of the day's level is added before each logarithm, so zeros survive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forecasting.batch import SEASONS_BACK, Batch
from forecasting.calendar import Calendar
from forecasting.grid import KINDS, PEAK, RATE
from forecasting.history import Rates
from forecasting.residuals import Indices, highest_from

OFFSET_SHARE = 0.05
_SEASONS = (1, 2, 3, SEASONS_BACK)
COMMON = 25
"""Features of a row."""
PER_LEAD = 12
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
    return Features(level, _common(batch, level), _by_lead(batch, level, calendar))


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
    known = np.minimum(batch.known / (SEASONS_BACK * grid.season), 1.0)
    fresh = (batch.known >= grid.season).astype(np.float64)
    return np.concatenate([logs, noise, known[:, None], fresh[:, None]], axis=1)


def _by_lead(batch: Batch, level: Level, calendar: Calendar) -> Rates:
    grid = batch.grid
    around = grid.bins(15) // 2
    columns = []
    for lead in grid.leads:
        ratios, raw = [], []
        for seasons in _SEASONS:
            ratio, absolute = _season_ago(batch, level, int(lead), seasons, around)
            ratios.append(ratio)
            raw.append(absolute)
        usable = np.stack([batch.known >= seasons * grid.season + grid.bins(30) for seasons in _SEASONS[:3]])
        mean = np.stack(ratios[:3]) * usable
        columns.append(
            np.stack(
                [
                    *ratios,
                    raw[0],
                    raw[-1],
                    mean.sum(axis=0) / np.maximum(usable.sum(axis=0), 1),
                    *_time_of(batch, calendar, int(lead)),
                ],
                axis=1,
            )
        )
    return np.stack(columns, axis=1)


def _season_ago(batch: Batch, level: Level, lead: int, seasons: int, around: int) -> tuple[Rates, Rates]:
    """What followed the level of then, and how it stands to the level of now; 0 where unknown."""
    grid = batch.grid
    # A season shorter than the horizon is looked up in whole seasons that have passed.
    back = grid.season * max(seasons, -(-(lead + around + 1) // grid.season))
    came = batch.mean(lead - around - back, lead + around + 1 - back)
    then = batch.mean(-grid.bins(30) - back, -back)
    known = batch.known >= back + grid.bins(30)
    ratio = np.log(came + level.offset) - np.log(then + level.offset)
    absolute = np.log(came + level.offset) - np.log(level.now + level.offset)
    return np.where(known, ratio, 0.0), np.where(known, absolute, 0.0)


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
