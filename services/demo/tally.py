"""The figures of a run, added up from its ticks."""

from __future__ import annotations

from dataclasses import dataclass, field

from services.control.loop import Tick
from services.control.training_quality import TrainingQuality, pooled
from services.control.types import Decision, Observation, WorkerPhase


@dataclass(slots=True)
class Tally:
    """Listens to the ticks of one job. Times between two ticks count as the later one saw them."""

    gpus_per_worker: float
    rate_per_worker: float
    """What one worker can train in a second: the measure of utilisation."""
    resizes: int = 0
    grown: int = 0
    shrunk: int = 0
    held_ticks: int = 0
    accumulated_lag: float = 0.0
    """Sample-seconds: the lag added up over time."""
    downtime_s: float = 0.0
    worker_s: float = 0.0
    worst_lag_s: float = 0.0
    workers_min: int | None = None
    workers_max: int = 0
    lost_workers: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    forecast_models: dict[str, int] = field(default_factory=dict)
    """Decisions by the model that led the forecast behind them."""
    forecast_resizes: dict[str, int] = field(default_factory=dict)
    """Resizes by the same."""
    forecast_model: str | None = None
    """The model that leads now."""
    forecast_score: float | None = None
    quality: TrainingQuality | None = None
    """How good the model was when workers last told."""
    _last_at_s: float | None = None
    _has_trained: bool = False

    def told(self, tick: Tick) -> None:
        """Take in one tick."""
        if tick.error is not None:
            self.held_ticks += 1
        if tick.seen is not None:
            self._observed(tick.seen)
        if tick.decision is None or tick.error is not None:
            return
        self._forecast_used(tick.seen, tick.decision)
        reason = tick.decision.reason.value
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if tick.decision.resize is not None:
            self.resizes += 1
            self.grown += tick.decision.planned > tick.decision.requested
            self.shrunk += tick.decision.planned < tick.decision.requested

    def _forecast_used(self, seen: Observation | None, decision: Decision) -> None:
        if seen is None or seen.forecast is None:
            return
        model = self.forecast_model = seen.forecast.model
        self.forecast_score = seen.forecast.score
        self.forecast_models[model] = self.forecast_models.get(model, 0) + 1
        if decision.resize is not None:
            self.forecast_resizes[model] = self.forecast_resizes.get(model, 0) + 1

    def _observed(self, seen: Observation) -> None:
        step_s = 0.0 if self._last_at_s is None else max(0.0, seen.at_s - self._last_at_s)
        self._last_at_s = seen.at_s
        ready = seen.pool.ready
        held = sum(worker.phase is not WorkerPhase.FAILED for worker in seen.pool.workers)
        self.worker_s += held * step_s
        self.accumulated_lag += seen.traffic.lag * step_s
        self.lost_workers = max(self.lost_workers, seen.pool.failures)
        if ready:
            self.workers_min = ready if self.workers_min is None else min(self.workers_min, ready)
            self.workers_max = max(self.workers_max, ready)
        self.quality = pooled(report.quality for report in seen.reports) or self.quality
        self.worst_lag_s = max(self.worst_lag_s, seen.traffic.lag_s)
        training = any(report.busy > 0 for report in seen.reports)
        self._has_trained |= training
        # Before the first training there was nothing to interrupt.
        if self._has_trained and not training and seen.traffic.lag > 0:
            self.downtime_s += step_s

    @property
    def gpu_hours(self) -> float:
        """GPUs held, whatever the workers were doing, in hours."""
        return self.worker_s * self.gpus_per_worker / 3600.0

    def utilisation(self, trained: int) -> float:
        """Samples trained over what the workers held could have trained."""
        possible = self.worker_s * self.rate_per_worker
        return trained / possible if possible else 0.0
