"""The forecast, what earlier ones had said, and the models behind it, as documents."""

from __future__ import annotations

from typing import Self

from forecasting.forecast import Forecast
from services.controller.hindsight import Said
from services.controller.views.view import View
from services.forecaster.served import ForecastStatus


class SaidView(View):
    """What was forecast for `at_s`, a lead time before."""

    at_s: float
    low: float
    middle: float
    high: float


class ModelScore(View):
    """How good one model has been lately."""

    model: str
    loss: float
    """Pinball loss at the 0.95 quantile over the mean rate; less is better."""
    coverage: float | None = None
    """Share of what came that lay below its 0.95 quantile."""
    peak_bias: float | None = None
    """Mean of (median forecast - came) / came, over peaks."""
    weight: float | None = None
    """Its share in the forecast served."""


class TrainingView(View):
    """How training of the forecasting models stands."""

    version: str
    """Of the trained models in force; empty before the first."""
    rolled_back: str = ""
    """The version that an operator took out of force; empty again once a training has beaten what serves."""
    models: list[str]
    """Trained models in force."""
    phase: str
    """`idle`, `running`, `done` or `failed`; the models in force stay when it failed."""
    stage: str
    share: float
    """Of the CPU budget of the training under way."""
    rejected: list[str]
    """Models of the last training that lost on the last season: to the light ones, or after a rollback to
    what serves."""
    fault: str
    """What went wrong last; empty when all is well."""
    advice: str
    """What is missing for the network that was asked for, and how to get it."""

    @classmethod
    def of(cls, status: ForecastStatus) -> Self:
        """The same, as a document."""
        training = status.training
        return cls(
            version=status.version,
            rolled_back=status.rolled_back,
            models=list(status.models),
            phase=training.phase.value,
            stage=training.stage,
            share=training.share,
            rejected=list(training.rejected),
            fault=status.fault,
            advice=status.advice,
        )


class ForecastView(View):
    """Quantile paths of the arrival rate, and what earlier ones had said of the past."""

    issued_at_s: float
    step_s: float
    model: str
    paths: dict[str, list[float]]
    """Rates a second by quantile level, one per step."""
    score: float | None
    """Live score of what was served: pinball loss at 0.95 over the mean rate; null before it is known."""
    scores: list[ModelScore]
    """Of every model that competes, where the forecaster tells."""
    training: TrainingView | None = None
    """Null where a light model was asked for alone."""
    trouble: str
    said: list[SaidView]
    """What was forecast for times that have come, a lead time before each."""

    @classmethod
    def of(
        cls,
        forecast: Forecast,
        said: tuple[Said, ...],
        scores: tuple[ModelScore, ...],
        training: TrainingView | None = None,
    ) -> Self:
        """The forecast in force."""
        return cls(
            issued_at_s=forecast.issued_at_s,
            step_s=forecast.step_s,
            model=forecast.model,
            paths={f"{level:g}": forecast.path(level).tolist() for level in forecast.levels},
            score=forecast.score,
            scores=list(scores),
            training=training,
            trouble=forecast.trouble,
            said=[SaidView.like(one) for one in said],
        )
