"""All topics, all models, one call: what every model says, and what is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from forecasting.batch import Batch, batch_of
from forecasting.calendar import Calendar
from forecasting.errors import NotEnoughHistory
from forecasting.features import describe
from forecasting.forecast import LEVELS, Forecast, steps_in
from forecasting.forecaster import Forecaster
from forecasting.grid import PEAK, RATE, Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.last_value import LastValue, MeanAndMax
from forecasting.learned import FleetModel
from forecasting.seasonal import SeasonalNaive
from forecasting.selector import Score, Selector

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


def said_by_learned(models: Sequence[FleetModel], batch: Batch, calendar: Calendar) -> dict[str, Rates]:
    """By model (rows, KINDS, leads, LEVELS); NaN in rows with too little history or no sound answer."""
    if not models or not len(batch):
        return {}
    features = describe(batch, calendar)
    still = _unmoved(batch)
    said = {}
    for model in models:
        answers = model.quantiles(batch, features)
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


@dataclass(frozen=True, slots=True)
class Trained:
    """One trained model as a forecaster of single topics.

    Its horizon is the grid's: weights are trained for one.
    """

    model: FleetModel
    grid: Grid
    calendar: Calendar = field(default_factory=Calendar)

    @property
    def name(self) -> str:
        return self.model.name

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        """As every forecaster; a longer horizon than the grid's repeats the last bin."""
        said = said_by_learned([self.model], batch_of(self.grid, [history]), self.calendar)
        quantiles = said[self.name][0]
        if not history.known or np.isnan(quantiles).any():
            need_s = self.model.needs * history.step_s
            raise NotEnoughHistory(self.name, have_s=history.known * history.step_s, need_s=need_s)
        return as_forecast(
            quantiles,
            self.grid,
            issued_at_s=history.end_s,
            model=self.name,
            data_age_s=int(np.argmin(np.isnan(history.rates[::-1]))) * history.step_s,
            steps=steps_in(horizon_s, history.step_s),
        )


def as_forecast(
    served: Rates,
    grid: Grid,
    *,
    issued_at_s: float,
    model: str,
    data_age_s: float,
    score: float | None = None,
    shares: Mapping[str, float] | None = None,
    steps: int | None = None,
) -> Forecast:
    """Paths over all bins from quantiles at the leads; what lies between is interpolated."""
    at = np.arange(grid.steps if steps is None else steps)
    paths = np.stack([np.interp(at, grid.leads, served[RATE, :, q]) for q in range(len(LEVELS))])
    peaks = np.stack([np.interp(at, grid.leads, served[PEAK, :, q]) for q in range(len(LEVELS))])
    paths = np.maximum.accumulate(np.maximum(paths, 0.0), axis=0)
    peaks = np.maximum(np.maximum.accumulate(peaks, axis=0), paths)
    return Forecast(
        issued_at_s=issued_at_s,
        step_s=grid.step_s,
        paths=paths,
        peaks=peaks,
        peak_s=grid.width * grid.step_s,
        model=model,
        data_age_s=data_age_s,
        score=score,
        shares=shares or {},
    )


@dataclass(slots=True)
class Fleet:
    """Forecasts for many topics, each with its own selector. Pure: state changes by what it is shown."""

    grid: Grid
    learned: tuple[FleetModel, ...] = ()
    calendar: Calendar = field(default_factory=Calendar)
    _selectors: dict[str, Selector] = field(default_factory=dict)

    def with_learned(self, learned: Sequence[FleetModel]) -> Fleet:
        """The same topics with other models; what is known of the light models is kept.

        A model of the same name but new weights starts with the scores of the old one:
        it was accepted because it did better, and its own scores soon outweigh them.
        """
        models = self._names(learned)
        selectors = {topic: selector.renamed(models) for topic, selector in self._selectors.items()}
        return replace(self, learned=tuple(learned), _selectors=selectors)

    def _names(self, learned: Sequence[FleetModel]) -> tuple[str, ...]:
        trained = tuple(model.name for model in learned)
        return trained + tuple(model.name for model in light_models(self.grid))

    def forecast(self, histories: Mapping[str, TrafficHistory]) -> dict[str, Forecast]:
        """One step: score what was said before, ask all models, mix. Topics never measured are left out."""
        speaking = {topic: history for topic, history in histories.items() if history.known}
        batch = batch_of(self.grid, list(speaking.values())) if speaking else None
        learned = {} if batch is None else said_by_learned(self.learned, batch, self.calendar)
        light = light_models(self.grid)
        served = {}
        for row, (topic, history) in enumerate(speaking.items()):
            said = said_by_light(light, history, self.grid)
            said |= {name: answers[row] for name, answers in learned.items()}
            served[topic] = self._serve(topic, history, said)
        for gone in self._selectors.keys() - histories.keys():
            del self._selectors[
                gone
            ]  # a topic that returns starts afresh: its old scores are of another life
        return served

    def _serve(self, topic: str, history: TrafficHistory, said: Said) -> Forecast:
        selector = self._selectors.setdefault(topic, Selector(self.grid, self._names(self.learned)))
        selector.settle(history)
        served = selector.mix(history.end_s, said)
        age = int(np.argmin(np.isnan(history.rates[::-1])))
        return as_forecast(
            served,
            self.grid,
            issued_at_s=history.end_s,
            model=selector.leader,
            data_age_s=age * self.grid.step_s,
            score=selector.served_loss,
            shares=selector.shares,
        )

    def scores(self, topic: str) -> tuple[Score, ...]:
        """How the models have done on a topic; empty for one never forecast."""
        selector = self._selectors.get(topic)
        return () if selector is None else selector.scores()
