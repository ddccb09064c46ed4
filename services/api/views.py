"""What the API shows: view models made from the loop's own types."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict

from services.control.types import Decision, Observation, Reason, WorkerPhase
from services.controller.journal import JobStatus
from services.controller.readiness import Readiness
from services.settings import JobSettings


class View(BaseModel):
    """Read-only, documented by the text below each field."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class JobView(View):
    """A job and whether it is well."""

    id: str
    topic: str
    group: str
    fresh_within_s: float
    late_share_target: float
    workers_min: int
    workers_max: int
    rule: str
    degraded: bool
    trouble: str
    """What is wrong, in words; empty when all is well."""

    @classmethod
    def of(cls, job: str, settings: JobSettings, status: JobStatus | None) -> Self:
        """The job as configured, with how its latest tick went."""
        return cls(
            id=job,
            topic=settings.topic,
            group=settings.group_of(job),
            fresh_within_s=settings.slo.fresh_within_s,
            late_share_target=settings.slo.late_share_target,
            workers_min=settings.scaling.workers_min,
            workers_max=settings.scaling.workers_max,
            rule=settings.scaling.rule,
            degraded=status.tick.degraded if status else True,
            trouble=status.tick.trouble if status else "no tick has ended yet",
        )


class TrafficView(View):
    """Traffic and progress as last measured."""

    at_s: float
    rate_per_s: float
    trained_per_s: float
    lag: int
    lag_s: float
    partitions: int
    lost: int
    degraded: str

    @classmethod
    def of(cls, seen: Observation) -> Self:
        """The reading behind the latest decision."""
        traffic = seen.traffic
        return cls(
            at_s=traffic.at_s,
            rate_per_s=traffic.rate_per_s,
            trained_per_s=traffic.trained_per_s,
            lag=traffic.lag,
            lag_s=traffic.lag_s,
            partitions=len(traffic.partition_rates),
            lost=traffic.lost,
            degraded=traffic.degraded,
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
    numbers: dict[str, float]
    resized: bool

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
            numbers=dict(decision.numbers),
            resized=decision.resize is not None,
        )


class WorkerView(View):
    """One worker of the pool."""

    id: str
    phase: WorkerPhase
    started_at_s: float
    partitions: tuple[int, ...]
    """The partitions it prefers."""
    busy: float | None
    trained: int | None

    @classmethod
    def all_of(cls, status: JobStatus) -> list[Self]:
        """Every worker that the latest tick saw, with its own report where there is one."""
        if status.seen is None:
            return []
        reports = {report.worker: report for report in status.seen.reports}
        assignment = status.decision.state.assignment if status.decision else None
        views = []
        for worker in status.seen.pool.workers:
            report = reports.get(worker.id)
            views.append(
                cls(
                    id=worker.id,
                    phase=worker.phase,
                    started_at_s=worker.started_at_s,
                    partitions=assignment.partitions_of(worker.id) if assignment else (),
                    busy=report.busy if report else None,
                    trained=report.trained if report else None,
                )
            )
        return views


class ForecastView(View):
    """Quantile paths of the arrival rate."""

    issued_at_s: float
    step_s: float
    model: str
    paths: dict[str, list[float]]
    """Rates a second by quantile level, one per step."""

    @classmethod
    def of(cls, seen: Observation) -> Self | None:
        """None when no model could say anything."""
        forecast = seen.forecast
        if forecast is None:
            return None
        return cls(
            issued_at_s=forecast.issued_at_s,
            step_s=forecast.step_s,
            model=forecast.model,
            paths={f"{level:g}": forecast.path(level).tolist() for level in forecast.levels},
        )


class ReadinessView(View):
    """Whether this controller can do its work, and what keeps it from it."""

    ready: bool
    leading: bool
    dependencies: dict[str, str]
    """`ok`, or what is wrong, by dependency."""

    @classmethod
    def of(cls, readiness: Readiness) -> Self:
        """The same, as a document."""
        return cls(
            ready=readiness.ready, leading=readiness.leading, dependencies=dict(readiness.dependencies)
        )
