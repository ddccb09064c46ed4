"""One network alone as the forecaster of a backtest: as Kale has its FEDformer."""

from __future__ import annotations

from dataclasses import replace

from forecasting.calendar import Calendar
from forecasting.errors import NotEnoughHistory
from forecasting.fleet import Trained
from forecasting.forecast import Forecast
from forecasting.forecaster import FallbackChain, Forecaster
from forecasting.grid import Grid
from forecasting.heavy import heavy
from forecasting.history import TrafficHistory
from forecasting.last_value import LastValue
from forecasting.learned import ROWS_MIN, lessons_from
from forecasting.network import NetworkSpec, Weights, spec_named
from forecasting.network_lessons import STEPS_CONVERGED, Effort
from forecasting.network_training import train_network
from forecasting.seasonal import SeasonalNaive
from forecasting.torch_network import runnable

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S
REACH = 1.25
"""Forecasts reach this much beyond what is asked for, for the peak after the last lead."""


class NetworkOnPrefix:
    """A network trained on the traffic before each moment: for `effort` at first (until it has converged,
    unless told), then from those weights once every `retrain_s`, with at most a fifth of the steps. Until
    there is enough to learn from, and where the network is not sure of a number, the light models speak.

    Only steps bound the training, never the clock: the same traffic gives the same forecasts.
    """

    def __init__(self, network: str, *, effort: Effort | None = None, retrain_s: float = WEEK_S) -> None:
        self._spec = spec_named(network)
        self._effort = effort or _converging(self._spec)
        self._retrain_s = retrain_s
        self._tried_at_s: float | None = None
        self._weights: Weights | None = None
        self._chain: tuple[Forecaster, ...] = (SeasonalNaive(), LastValue())

    @property
    def name(self) -> str:
        return self._spec.name

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        """Trains when due, then speaks. Ask in the order of time."""
        if self._is_due(history):
            self._tried_at_s = history.end_s
            self._train(history, Grid(history.step_s, REACH * horizon_s, DAY_S))
        return FallbackChain(self._chain).forecast(history, horizon_s=horizon_s)

    def _is_due(self, history: TrafficHistory) -> bool:
        wait_s = DAY_S if self._weights is None else self._retrain_s
        return self._tried_at_s is None or history.end_s - self._tried_at_s >= wait_s

    def _train(self, history: TrafficHistory, grid: Grid) -> None:
        lessons = lessons_from(grid, {"trace": history}, Calendar())
        if len(lessons) < ROWS_MIN:
            return
        if self._spec.architecture != "PatchTST":
            heavy("torch").set_num_threads(1)  # policies are judged side by side, one to a core
        effort = self._effort
        if self._weights is not None:
            effort = replace(effort, steps=max(effort.steps_of(self._spec) // 5, 1))
        try:
            network = train_network(lessons, self._spec, Calendar(), effort, start=self._weights)
        except NotEnoughHistory:
            return
        self._weights = network.weights
        self._chain = (Trained(runnable(network, grid, Calendar()), grid), *self._chain[-2:])


def _converging(spec: NetworkSpec) -> Effort:
    """What numpy trains has its own number of steps; torch goes on while rows held out gain by it."""
    if spec.architecture == "PatchTST":
        return Effort()
    return Effort(steps=STEPS_CONVERGED, until_converged=True)
