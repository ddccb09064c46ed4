"""Which forecaster a backtest gives to the policies that look ahead."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from forecasting.boosting import train_boosting
from forecasting.calendar import Calendar
from forecasting.errors import NotEnoughHistory
from forecasting.fleet import Fleet
from forecasting.forecast import Forecast
from forecasting.forecaster import FallbackChain, Forecaster
from forecasting.grid import Grid
from forecasting.heavy import missing
from forecasting.history import TrafficHistory
from forecasting.last_value import LastValue
from forecasting.learned import ROWS_MIN, FleetModel, lessons_from
from forecasting.network import SPECS
from forecasting.regression import train_regression
from forecasting.seasonal import SeasonalNaive
from services.forecaster.lesson import missing_for
from services.simulator.errors import SimulationError
from services.simulator.network_on_prefix import NetworkOnPrefix

DAY_S = 86_400.0


def light() -> Forecaster:
    """What runs without training: the season before at today's level, last value where that is unknown."""
    return FallbackChain((SeasonalNaive(), LastValue()))


class ServedOnPrefix:
    """What a live controller serves: trained models and light ones, mixed by their scores so far.

    Trained again once a day, on nothing but the traffic before. Networks are left out: one costs
    minutes a day, and a backtest may have months of them.
    """

    def __init__(self, *, retrain_s: float = DAY_S) -> None:
        self._retrain_s = retrain_s
        self._trained_at_s: float | None = None
        self._fleet: Fleet | None = None

    @property
    def name(self) -> str:
        return "served"

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        """Scores what was said before, trains when due, then speaks. Ask in the order of time."""
        fleet = self._fleet or Fleet(Grid(history.step_s, horizon_s, DAY_S))
        if self._trained_at_s is None or history.end_s - self._trained_at_s >= self._retrain_s:
            self._trained_at_s = history.end_s
            learned = _learned(fleet.grid, history)
            fleet = fleet.with_learned(learned) if learned else fleet
        self._fleet = fleet
        said = fleet.forecast({"trace": history})
        if "trace" not in said:
            raise NotEnoughHistory(self.name, have_s=history.known * history.step_s, need_s=history.step_s)
        return said["trace"]


def _learned(grid: Grid, history: TrafficHistory) -> list[FleetModel]:
    """Models trained on this history; none when it is too short to learn from."""
    lessons = lessons_from(grid, {"trace": history}, Calendar())
    if len(lessons) < ROWS_MIN:
        return []
    models: list[FleetModel] = [train_regression(lessons)]
    if not missing("lightgbm"):
        models.append(train_boosting(lessons))
    return models


FORECASTERS: Mapping[str, Callable[[], Forecaster]] = {"light": light, "served": ServedOnPrefix}


def forecaster_named(name: str) -> Forecaster:
    """A fresh forecaster. Raises SimulationError where there is none, or it cannot be trained here."""
    make = FORECASTERS.get(name)
    if make is not None:
        return make()
    if name not in SPECS:
        raise SimulationError(
            f"no forecaster {name!r}; there are {', '.join(sorted({*FORECASTERS, *SPECS}))}"
        )
    if missing := missing_for(name):
        raise SimulationError(missing)
    return NetworkOnPrefix(name)


class Remembered:
    """A forecaster that thinks once for every bin of one traffic, however many policies ask.

    Forecasts follow from arrivals alone, and those are the same for every policy.
    """

    def __init__(self, forecaster: Forecaster) -> None:
        self._forecaster = forecaster
        self._said: dict[tuple[float, float], Forecast | NotEnoughHistory] = {}

    @property
    def name(self) -> str:
        return self._forecaster.name

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        """As the forecaster behind says."""
        key = (history.end_s, horizon_s)
        if key not in self._said:
            try:
                self._said[key] = self._forecaster.forecast(history, horizon_s=horizon_s)
            except NotEnoughHistory as error:
                self._said[key] = error
        said = self._said[key]
        if isinstance(said, NotEnoughHistory):
            raise said
        return said
