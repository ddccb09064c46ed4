"""All topics, all models, one call: what every model says, and what is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from forecasting.batch import SEASONS_LIKE, batch_of
from forecasting.calendar import Calendar
from forecasting.cleaning import calm
from forecasting.errors import NotEnoughHistory
from forecasting.forecast import LEVELS, Forecast, steps_in
from forecasting.grid import PEAK, RATE, Grid
from forecasting.history import Rates, TrafficHistory
from forecasting.learned import FleetModel
from forecasting.rehearsal import rehearse
from forecasting.selector import Score, Selector
from forecasting.voices import Said, light_models, said_by_learned, said_by_light

BINS_AT_ONCE = 4_000_000
"""Of the past, that are described at a time: four weeks of minutes of a thousand topics are gigabytes."""
REHEARSED_A_STEP = 4
"""Topics that are rehearsed in one step: a second or so for all, in the background."""


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
            data_age_s=history.data_age_s,
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
    trouble: str = "",
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
        trouble=trouble,
    )


@dataclass(slots=True)
class Fleet:
    """Forecasts for many topics, each with its own selector. Pure: state changes by what it is shown."""

    grid: Grid
    learned: tuple[FleetModel, ...] = ()
    calendar: Calendar = field(default_factory=Calendar)
    rehearses: bool = False
    """Whether newcomers are scored on the last season first; only where training held that out."""
    faults: dict[str, str] = field(default_factory=dict)
    """By model: what it raised in the last step."""
    _selectors: dict[str, Selector] = field(default_factory=dict)
    _rehearsed: set[str] = field(default_factory=set)
    """Topics whose models have been scored on the season before they were first asked."""

    def with_learned(self, learned: Sequence[FleetModel]) -> Fleet:
        """The same topics with other models; what is known of the light models is kept.

        A model of the same name but new weights starts with the scores of the old one,
        until it has been rehearsed on the last season.
        """
        models = self._names(learned)
        selectors = {topic: selector.renamed(models) for topic, selector in self._selectors.items()}
        return replace(self, learned=tuple(learned), faults={}, _selectors=selectors, _rehearsed=set())

    def _names(self, learned: Sequence[FleetModel]) -> tuple[str, ...]:
        trained = tuple(model.name for model in learned)
        return trained + tuple(model.name for model in light_models(self.grid))

    def forecast(self, histories: Mapping[str, TrafficHistory]) -> dict[str, Forecast]:
        """One step: score what was said before, ask all models, mix. Topics never measured are left out.

        A model that raises is left out, and the forecasts say so.
        """
        speaking = {topic: history for topic, history in histories.items() if history.known}
        learned = self._said_by_learned(list(speaking.values()))
        self._rehearse(speaking)
        light = light_models(self.grid)
        served = {}
        for row, (topic, history) in enumerate(speaking.items()):
            # The burst after an outage is nobody's traffic: no model is shown it, nor scored on it.
            traffic = calm(history, self.grid)
            said = said_by_light(light, traffic, self.grid)
            said |= {name: answers[row] for name, answers in learned.items()}
            served[topic] = self._serve(topic, history, traffic, said)
        for gone in self._selectors.keys() - histories.keys():
            # A topic that returns starts afresh: its old scores are of another life.
            del self._selectors[gone]
            self._rehearsed.discard(gone)
        return served

    def _said_by_learned(self, histories: Sequence[TrafficHistory]) -> dict[str, Rates]:
        """So many topics at once as keep memory small; a model that raises for some is silent for all."""
        broken: dict[str, str] = {}
        count = max(1, BINS_AT_ONCE // (SEASONS_LIKE * self.grid.season))
        pieces = [
            said_by_learned(
                self.learned, batch_of(self.grid, histories[at : at + count]), self.calendar, broken=broken
            )
            for at in range(0, len(histories), count)
        ]
        self.faults = broken
        sound = [model.name for model in self.learned if model.name not in broken]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in sound if pieces}

    def _rehearse(self, histories: Mapping[str, TrafficHistory]) -> None:
        """Score the models of a few topics on their last season: nobody starts without a record."""
        waiting = [topic for topic in histories if self.rehearses and topic not in self._rehearsed]
        sound = [model for model in self.learned if model.name not in self.faults]
        for topic in waiting[:REHEARSED_A_STEP]:
            self._rehearsed.add(topic)
            fresh, before = Selector(self.grid, self._names(self.learned)), self._selectors.get(topic)
            if before is not None:
                # One season is little to judge by: what a name's last weights were worth counts too,
                # by half, which is what the season played now leaves of older scores.
                fresh.remembering(before)
            rehearse(fresh, histories[topic], sound, self.calendar)
            self._selectors[topic] = fresh if before is None else fresh.succeeding(before)

    def _serve(self, topic: str, history: TrafficHistory, traffic: TrafficHistory, said: Said) -> Forecast:
        selector = self._selectors.setdefault(topic, Selector(self.grid, self._names(self.learned)))
        selector.settle(traffic)
        served = selector.mix(history.end_s, said)
        return as_forecast(
            served,
            self.grid,
            issued_at_s=history.end_s,
            model=selector.leader,
            data_age_s=history.data_age_s,
            score=selector.served_loss,
            shares=selector.shares,
            trouble="; ".join(f"{model} failed ({why})" for model, why in self.faults.items()),
        )

    def scores(self, topic: str) -> tuple[Score, ...]:
        """How the models have done on a topic; empty for one never forecast."""
        selector = self._selectors.get(topic)
        return () if selector is None else selector.scores()
