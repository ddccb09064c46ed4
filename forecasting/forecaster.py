"""The protocol that every forecaster obeys, and the chain that never leaves a tick without a forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from forecasting.errors import NotEnoughHistory
from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory


class Forecaster(Protocol):
    """Past traffic in, quantile paths out. Pure: the same history gives the same forecast."""

    @property
    def name(self) -> str: ...

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        """Quantile paths from the history's end on, in the history's own step.

        Raises NotEnoughHistory when this model cannot say anything yet.
        """
        ...


@dataclass(frozen=True, slots=True)
class FallbackChain:
    """The first model of the chain that has enough history speaks.

    The forecast carries the name of the model that made it, so a decision can
    say that a fallback was in use.
    """

    models: Sequence[Forecaster]

    @property
    def name(self) -> str:
        return self.models[0].name

    def forecast(self, history: TrafficHistory, *, horizon_s: float) -> Forecast:
        missing: NotEnoughHistory | None = None
        for model in self.models:
            try:
                return model.forecast(history, horizon_s=horizon_s)
            except NotEnoughHistory as error:
                missing = error
        raise missing or NotEnoughHistory("an empty chain", have_s=history.span_s, need_s=history.step_s)
