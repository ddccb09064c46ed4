"""The workers of a pool as documents."""

from __future__ import annotations

from services.control.types import WorkerPhase
from services.controller.journal import JobStatus
from services.controller.views.view import View


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
