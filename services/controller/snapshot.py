"""All that a leading controller knows of a job, in one document: for its own API and for the followers'."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from services.controller.hindsight import Said
from services.controller.journal import JobStatus
from services.controller.views.decision import DecisionView
from services.controller.views.forecast import ForecastView, ModelScore, TrainingView
from services.controller.views.quality import QualityView
from services.controller.views.safety import SafetyView
from services.controller.views.throughput import ThroughputView
from services.controller.views.traffic import TrafficView
from services.controller.views.view import View
from services.controller.views.workers import WorkerView, workers_of
from services.settings import JobSettings


class JobSnapshot(View):
    """Everything that the API shows of a job beyond its definition."""

    at_s: float
    leader: str = ""
    degraded: bool
    trouble: str
    requested: int | None = None
    ready: int | None = None
    plan: DecisionView | None = None
    traffic: TrafficView | None = None
    forecast: ForecastView | None = None
    throughput: ThroughputView | None = None
    safety: SafetyView | None = None
    workers: list[WorkerView] = Field(default=[])
    quality: QualityView | None = None

    @classmethod
    def of(
        cls,
        status: JobStatus,
        settings: JobSettings,
        *,
        said: tuple[Said, ...] = (),
        scores: tuple[ModelScore, ...] = (),
        training: TrainingView | None = None,
        quality: QualityView | None = None,
    ) -> Self:
        """From the latest ticks of this controller."""
        seen, decision = status.seen, status.decision
        return cls(
            at_s=status.tick.at_s,
            degraded=status.tick.degraded,
            trouble=status.tick.trouble,
            requested=seen.pool.requested if seen else None,
            ready=seen.pool.ready if seen else None,
            plan=DecisionView.of(decision) if decision else None,
            traffic=TrafficView.of(seen, span_s=2 * settings.forecast.season_s) if seen else None,
            forecast=ForecastView.of(seen.forecast, said, scores, training)
            if seen and seen.forecast
            else None,
            throughput=ThroughputView.of(seen, decision, settings) if seen and decision else None,
            safety=SafetyView.of(decision, settings.scaling.safety) if decision else None,
            workers=workers_of(status),
            quality=quality,
        )
