"""What a controller would have served, for simulations: trained on the past of each moment only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forecasting.boosting import train_boosting
from forecasting.calendar import Calendar
from forecasting.errors import NotEnoughHistory
from forecasting.fleet import Fleet
from forecasting.forecast import Forecast
from forecasting.grid import Grid
from forecasting.heavy import installed
from forecasting.history import TrafficHistory
from forecasting.learned import ROWS_MIN, FleetModel, lessons_from
from forecasting.perceptron import train_perceptron
from forecasting.regression import train_regression

ROWS = 8_000


class RollingForecaster:
    """A `Forecaster` with memory: it must be asked with ever longer histories of one topic.

    Cheap models are trained when two seasons are known and again every `retrain_seasons`;
    the selector mixes them with the light ones, as when serving live.
    """

    def __init__(
        self,
        *,
        season_s: float = 86_400.0,
        retrain_seasons: float = 1.0,
        models: Sequence[str] = ("regression", "perceptron"),
    ) -> None:
        self._season_s = season_s
        self._retrain_seasons = retrain_seasons
        self._models = tuple(models)
        self._fleet: Fleet | None = None
        self._trained_to_s: float | None = None

    @property
    def name(self) -> str:
        return "served"

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        """Raises NotEnoughHistory when nothing was measured yet."""
        if self._fleet is None:
            self._fleet = Fleet(Grid(history.step_s, horizon_s, self._season_s))
        if self._due(history, self._fleet.grid):
            self._fleet = self._fleet.with_learned(self._trained(history, self._fleet.grid))
            self._trained_to_s = history.end_s
        served = self._fleet.forecast({"topic": history})
        if "topic" not in served:
            raise NotEnoughHistory(self.name, have_s=0.0, need_s=history.step_s)
        return replace(served["topic"], model=self.name)

    def _due(self, history: TrafficHistory, grid: Grid) -> bool:
        if history.known < 2 * grid.season + grid.reach:
            return False
        return (
            self._trained_to_s is None
            or history.end_s - self._trained_to_s >= self._retrain_seasons * self._season_s
        )

    def _trained(self, history: TrafficHistory, grid: Grid) -> list[FleetModel]:
        lessons = lessons_from(grid, {"topic": history}, Calendar(), rows_max=ROWS)
        if len(lessons) < ROWS_MIN:
            return []
        models: list[FleetModel] = []
        if "regression" in self._models:
            models.append(train_regression(lessons))
        if "perceptron" in self._models:
            models.append(train_perceptron(lessons))
        if "boosting" in self._models and installed("lightgbm"):
            models.append(train_boosting(lessons))
        return models
