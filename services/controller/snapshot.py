"""What a leading controller knows of a job, as documents: for its API, and for that of the followers."""

from __future__ import annotations

from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict

from estimator.capacity import LearnedCapacity
from estimator.lead_time import Failures
from estimator.throughput import Bottleneck, Confidence
from forecasting.forecast import Forecast
from forecasting.history import TrafficHistory
from forecasting.selector import Score
from services.control.types import Decision, Observation, Reason, WorkerPhase
from services.controller.hindsight import Said
from services.controller.journal import JobStatus
from services.forecaster.served import ForecastStatus
from services.settings import JobSettings

POINTS_MAX = 480
"""Points of a series: what a chart can show."""
CURVE_MAX = 512


class View(BaseModel):
    """Read-only, documented by the text below each field."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class HistoryView(View):
    """Mean arrival rates of equal bins; a bin that was not measured is null."""

    start_s: float
    step_s: float
    rates: list[float | None]

    @classmethod
    def of(cls, history: TrafficHistory, *, span_s: float) -> Self:
        """The last `span_s` of it, with bins joined so that there are at most POINTS_MAX."""
        bins = min(len(history.rates), max(1, round(span_s / history.step_s)))
        rates = history.rates[len(history.rates) - bins :]
        width = max(1, -(-len(rates) // POINTS_MAX))
        usable = len(rates) - len(rates) % width
        rates = rates[len(rates) - usable :].reshape(-1, width)
        known = ~np.isnan(rates)
        counts = known.sum(axis=1)
        totals = np.where(known, rates, 0.0).sum(axis=1)
        means = [float(t / c) if c else None for t, c in zip(totals, counts, strict=True)]
        return cls(
            start_s=history.end_s - usable * history.step_s, step_s=history.step_s * width, rates=means
        )


class TrafficView(View):
    """Traffic and progress as last measured, and the traffic before."""

    at_s: float
    rate_per_s: float
    trained_per_s: float
    lag: int
    """Samples that arrived and are not trained."""
    lag_s: float
    """Age of the oldest of them."""
    partitions: int
    partition_rates: list[float]
    partition_lags: list[int]
    lost: int
    """Samples that Kafka deleted before they were trained."""
    degraded: str
    history: HistoryView | None

    @classmethod
    def of(cls, seen: Observation, *, span_s: float) -> Self:
        """The reading behind the latest decision."""
        traffic = seen.traffic
        history = seen.history
        return cls(
            at_s=traffic.at_s,
            rate_per_s=traffic.rate_per_s,
            trained_per_s=traffic.trained_per_s,
            lag=traffic.lag,
            lag_s=traffic.lag_s,
            partitions=len(traffic.partition_rates),
            partition_rates=list(traffic.partition_rates),
            partition_lags=list(traffic.partition_lags),
            lost=traffic.lost,
            degraded=traffic.degraded,
            history=HistoryView.of(history, span_s=span_s) if history and len(history.rates) else None,
        )


class DecisionView(View):
    """One decision: what, why, and the numbers that led to it."""

    id: str
    at_s: float
    planned: int
    requested: int
    """What the platform had been asked for before."""
    ready: int
    reason: Reason
    notes: tuple[Reason, ...]
    numbers: dict[str, float | None]
    """Null where a number is not finite: JSON has no other way."""
    resized: bool
    confidence: Confidence
    """How far the throughput curve could be trusted beyond the sizes seen."""
    bottleneck: Bottleneck
    """What limited the workers as they were."""

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """Everything but what only the next tick needs."""
        return cls(
            id=decision.id,
            at_s=decision.at_s,
            planned=decision.planned,
            requested=decision.requested,
            ready=decision.ready,
            reason=decision.reason,
            notes=decision.notes,
            numbers={name: v if np.isfinite(v) else None for name, v in decision.numbers.items()},
            resized=decision.resize is not None,
            confidence=decision.confidence,
            bottleneck=decision.bottleneck,
        )


class SaidView(View):
    """What was forecast for `at_s`, a lead time before."""

    at_s: float
    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, said: Said) -> Self:
        """The same, as a document."""
        return cls(at_s=said.at_s, low=said.low, middle=said.middle, high=said.high)


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

    @classmethod
    def of(cls, score: Score) -> Self:
        """The same, as a document."""
        return cls(
            model=score.model,
            loss=score.loss,
            coverage=score.coverage,
            peak_bias=score.peak_bias,
            weight=score.weight,
        )


class TrainingView(View):
    """How training of the forecasting models stands."""

    version: str
    """Of the trained models in force; empty before the first."""
    models: list[str]
    """Trained models in force."""
    phase: str
    """`idle`, `running`, `done` or `failed`; the models in force stay when it failed."""
    stage: str
    share: float
    """Of the CPU budget of the training under way."""
    rejected: list[str]
    """Models of the last training that lost to the light ones on the last season."""
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
            said=[SaidView.of(one) for one in said],
        )


class ThroughputView(View):
    """How many samples a second n workers can train, as learned so far, and how soon they come."""

    rate_per_worker: float
    """What one worker alone trains in a second of work."""
    observations: int
    """Windows that what is known rests on."""
    sizes_seen: list[int]
    """Pool sizes among them."""
    confidence: Confidence
    """How far the curve can be trusted beyond the sizes seen."""
    curve: list[float]
    """C(n): samples a second of 0, 1, 2, ... workers."""
    curve_low: list[float]
    """What is planned with: C(n) less its margin, and flat beyond `reach`."""
    reach: int
    """The most workers that C(n) is extrapolated to."""
    ready: int
    """The operating point: workers that train now."""
    trained_per_s: float
    bottleneck: str
    """What would have to change to train more, in words."""
    limit: Bottleneck
    """What keeps workers from training more than they do."""
    resource: str
    """Which shared resource that is, where there are several."""
    refused: dict[str, int]
    """Telemetry that could not be true, by kind."""
    forgotten: int
    """How often workers changed so much that what had been learned was given up."""
    lead_time_s: float
    """From asking for a worker to its first trained batch; nine of ten are quicker."""
    pause_s: float
    """How long a resize stops training; nine of ten less."""
    start_failure_share: float
    """Of workers asked for, those that do not come."""
    failures_per_worker_day: float

    @classmethod
    def of(cls, seen: Observation, decision: Decision, settings: JobSettings) -> Self:
        """The curve up to what the job may have."""
        most = min(settings.scaling.workers_max, CURVE_MAX)
        learned, pool = decision.state.throughput, decision.state.pool
        model = learned.model
        broken = seen.traffic.lag_s > settings.slo.fresh_within_s
        low = LearnedCapacity.of(model, slo_broken=broken, workers_max=settings.scaling.workers_max)
        failures = pool.times.failures if pool.times else Failures()
        return cls(
            rate_per_worker=model.samples_per_s(1),
            observations=round(sum(row.count for row in model.knowledge.rows)),
            sizes_seen=list(model.sizes_seen),
            confidence=decision.confidence,
            curve=[model.samples_per_s(n) for n in range(most + 1)],
            curve_low=[low.samples_per_s(n) for n in range(most + 1)],
            reach=low.reach,
            ready=seen.pool.ready,
            trained_per_s=seen.traffic.trained_per_s,
            bottleneck=_bottleneck(seen, decision, settings),
            limit=decision.bottleneck,
            resource=model.binding.resource,
            refused=dict(model.knowledge.lies),
            forgotten=model.knowledge.drift.alarms,
            lead_time_s=pool.lead_time_s,
            pause_s=pool.pause_s,
            start_failure_share=failures.start_share,
            failures_per_worker_day=failures.per_worker_day,
        )


def _bottleneck(seen: Observation, decision: Decision, settings: JobSettings) -> str:
    if Reason.AT_PARTITIONS in decision.notes:
        return f"partitions: without leases, {len(seen.traffic.partition_rates)} workers is the most"
    if Reason.AT_MAXIMUM in decision.notes:
        return f"workers_max: {settings.scaling.workers_max} workers is the most allowed"
    wall = decision.state.throughput.model.wall
    if wall is not None:
        what = f"{wall.binding.bottleneck.value} {wall.binding.resource}".replace("_", " ").strip()
        return f"{what}: more than {wall.workers} workers trained hardly more"
    if decision.planned > seen.pool.ready:
        return f"workers: {decision.planned - seen.pool.ready} more are asked for and not ready yet"
    if seen.traffic.lag_s > settings.slo.fresh_within_s:
        return "workers: the pool trains all it can and is behind"
    return "traffic: the workers train what arrives"


class WorkerView(View):
    """One worker of the pool."""

    id: str
    phase: WorkerPhase
    started_at_s: float
    gpu_type: str
    node: str
    partitions: tuple[int, ...]
    """The partitions it prefers."""
    share: float
    """Share of the traffic on those partitions; of one with several owners, an equal part."""
    busy: float | None
    """Fraction of the time that it trains; null when it does not say."""
    trained: int | None
    rate_per_busy_s: float | None


def workers_of(status: JobStatus) -> list[WorkerView]:
    """Every worker that the latest tick saw, with its own report where there is one."""
    if status.seen is None:
        return []
    reports = {report.worker: report for report in status.seen.reports}
    owners = status.decision.state.assignment.owners if status.decision else {}
    rates = status.seen.traffic.partition_rates
    total = sum(rates) or 1.0
    views = []
    for worker in status.seen.pool.workers:
        report = reports.get(worker.id)
        mine = tuple(p for p, names in sorted(owners.items()) if worker.id in names)
        views.append(
            WorkerView(
                id=worker.id,
                phase=worker.phase,
                started_at_s=worker.started_at_s,
                gpu_type=worker.gpu_type,
                node=worker.node,
                partitions=mine,
                share=sum(rates[p] / len(owners[p]) for p in mine if p < len(rates)) / total,
                busy=report.busy if report else None,
                trained=report.trained if report else None,
                rate_per_busy_s=report.rate_per_busy_s if report else None,
            )
        )
    return views


class QualityView(View):
    """How fresh, and how good, training has been."""

    trained: int
    late: int
    """Those that were late by their own timestamps, as the workers counted."""
    late_share: float
    """Share of the last week's samples that were late by their arrival; before the meter has counted
    any, the share by their own timestamps."""
    late_share_by_event_time: float | None = None
    """Share of all samples since the job began that were late by their own timestamps."""
    repeated: int
    """Samples that may have been trained twice."""
    lost: int
    auc: float | None = None
    """Test-then-train AUC, when the trainer reports it."""
    logloss: float | None = None
    """Test-then-train log loss, likewise."""
    sample_age_s: float | None = None
    """From the event to its being trained, on the average over the latest samples, likewise."""
    evaluated: int | None = None
    """How many of the latest samples these figures are of."""
    skipped_batches: int | None = None
    """Batches of the present workers whose loss was no number; they changed nothing."""
    rejected: int | None = None
    """Messages that the present workers put into the dead-letter topic."""


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
    workers: list[WorkerView] = []
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
            workers=workers_of(status),
            quality=quality,
        )
