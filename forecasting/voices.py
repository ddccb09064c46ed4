"""What every model says of one topic or of many: the words that a selector weighs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from forecasting.batch import Batch
from forecasting.calendar import Calendar
from forecasting.errors import NotEnoughHistory
from forecasting.features import describe
from forecasting.forecaster import Forecaster
from forecasting.grid import Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.last_value import LastValue, MeanAndMax
from forecasting.learned import FleetModel
from forecasting.seasonal import SeasonalNaive

Said = dict[str, Rates]
"""By model: (KINDS, leads, LEVELS)."""


def light_models(grid: Grid) -> tuple[Forecaster, ...]:
    """Models that need no training, their windows in the grid's units."""
    window_s = 30 * grid.unit_s
    return (
        LastValue(),
        MeanAndMax(window_s=window_s),
        SeasonalNaive(season_s=grid.season_s, level_s=window_s),
    )


def said_by_light(models: Sequence[Forecaster], history: TrafficHistory, grid: Grid) -> Said:
    """What each light model says of one topic; one without enough history is silent."""
    said: Said = {}
    for model in models:
        try:
            ahead = model.forecast(history, horizon_s=grid.horizon_s)
        except NotEnoughHistory:
            continue
        peaks = ahead.paths if ahead.peaks is None else ahead.peaks
        said[model.name] = np.stack([ahead.paths[:, grid.leads].T, peaks[:, grid.leads].T])
    return said


def said_by_learned(
    models: Sequence[FleetModel], batch: Batch, calendar: Calendar, *, broken: dict[str, str] | None = None
) -> dict[str, Rates]:
    """By model (rows, KINDS, leads, LEVELS); NaN in rows with too little history or no sound answer.

    With `broken`, a model that raises is written down there and the others speak on.
    """
    if not models or not len(batch):
        return {}
    features = describe(batch, calendar)
    still = _unmoved(batch)
    said = {}
    for model in models:
        try:
            answers = model.quantiles(batch, features)
        except Exception as error:
            if broken is None:
                raise
            broken[model.name] = f"{type(error).__name__}: {error}"
            continue
        # What has not moved for a season stays, whatever other traffic taught the model.
        answers[still] = features.level.now[still][:, None, None, None]
        unsound = (batch.known < model.needs) | ~np.isfinite(answers).all(axis=(1, 2, 3))
        answers[unsound] = np.nan
        said[model.name] = answers
    return said


def _unmoved(batch: Batch) -> NDArray[np.bool_]:
    season = batch.grid.season
    mean = batch.mean(-season, 0)
    moved = batch.roughness(season) > 1e-9 * mean
    return ~moved & (batch.known >= season)
