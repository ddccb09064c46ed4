"""Forecasts from light models alone: no process, no file, an answer within the tick."""

from __future__ import annotations

from dataclasses import replace

from forecasting.cleaning import calm
from forecasting.errors import NotEnoughHistory
from forecasting.forecast import Forecast
from forecasting.forecaster import FallbackChain, Forecaster
from forecasting.grid import Grid
from forecasting.history import TrafficHistory
from forecasting.last_value import LastValue
from forecasting.seasonal import SeasonalNaive
from services.settings.traffic import ForecastSettings


def light_chain(settings: ForecastSettings) -> FallbackChain:
    """The model asked for, then what needs less history; last value ends every chain."""
    last: Forecaster = LastValue()
    if settings.model == "last-value":
        return FallbackChain((last,))
    return FallbackChain((SeasonalNaive(season_s=settings.season_s), last))


class LightForecasts:
    """A `ForecastSource` of light models. Thinks once a bin; ticks in between get the same answer."""

    def __init__(self, settings: ForecastSettings) -> None:
        self._chain = light_chain(settings)
        self._settings = settings
        self._seen: tuple[float, float, int] | None = None
        self._latest: Forecast | None = None

    def forecast(self, history: TrafficHistory) -> Forecast | None:
        """None when nothing was measured yet."""
        # A gap that is filled later changes what is known without moving the end.
        seen = (history.end_s, history.step_s, history.known)
        if seen != self._seen:
            self._latest = self._think(history)
            self._seen = seen
        return self._latest

    def _think(self, history: TrafficHistory) -> Forecast | None:
        grid = Grid(history.step_s, self._settings.horizon_s, self._settings.season_s)
        try:
            ahead = self._chain.forecast(calm(history, grid), horizon_s=grid.horizon_s)
        except NotEnoughHistory:
            return None
        # An outage is measured: it makes a forecast no older.
        return replace(ahead, data_age_s=history.data_age_s)
