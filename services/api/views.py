"""What the API shows of jobs beyond the leader's snapshot: definition, assignment, fleet."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from services.access.role import Role
from services.api.fleet_share_view import FleetShareView
from services.control.types import Mode, Reason
from services.controller.readiness import Readiness
from services.controller.snapshot import JobSnapshot
from services.controller.views.view import View
from services.controller.views.workers import WorkerView
from services.settings import JobSettings
from services.store.job_record import JobRecord, OverrideRecord, PauseRecord, RollbackRecord


class JobView(View):
    """A job: its definition, and how it is doing."""

    id: str
    version: int
    """Of the definition; its ETag."""
    topic: str
    group: str
    fresh_within_s: float
    late_share_target: float
    workers_min: int
    workers_max: int
    gpus_per_worker: float
    rule: str
    mode: Mode
    paused: PauseRecord | None
    override: OverrideRecord | None
    rollback: RollbackRecord | None
    """The version of the forecasting models that was last rolled back."""
    changed_at_s: float
    changed_by: str
    degraded: bool
    trouble: str
    """What is wrong, in words; empty when all is well."""
    at_s: float | None
    """When it was last seen; null when it was not."""
    planned: int | None
    requested: int | None
    ready: int | None
    rate_per_s: float | None
    lag_s: float | None
    late_share: float | None
    """Share of all trained samples that were late."""
    settings: JobSettings

    @classmethod
    def of(cls, record: JobRecord, seen: JobSnapshot | None, *, now_s: float) -> Self:
        """The job as defined, with how its latest tick went."""
        job, traffic = record.settings, seen.traffic if seen else None
        override = record.override
        return cls(
            id=record.name,
            version=record.version,
            topic=job.topic,
            group=job.group_of(record.name),
            fresh_within_s=job.slo.fresh_within_s,
            late_share_target=job.slo.late_share_target,
            workers_min=job.scaling.workers_min,
            workers_max=job.scaling.workers_max,
            gpus_per_worker=job.scaling.gpus_per_worker,
            rule=job.scaling.rule,
            mode=Mode.RECOMMEND if job.pool.kind == "recommend" else job.scaling.mode,
            paused=record.pause,
            override=override if override is not None and override.until_s > now_s else None,
            rollback=record.rollback,
            changed_at_s=record.changed_at_s,
            changed_by=record.changed_by,
            degraded=seen.degraded if seen else True,
            trouble=seen.trouble if seen else "not observed yet: no controller leads, or it has just started",
            at_s=seen.at_s if seen else None,
            planned=seen.plan.planned if seen and seen.plan else None,
            requested=seen.requested if seen else None,
            ready=seen.ready if seen else None,
            rate_per_s=traffic.rate_per_s if traffic else None,
            lag_s=traffic.lag_s if traffic else None,
            late_share=seen.quality.late_share if seen and seen.quality else None,
            settings=job,
        )


class PartitionView(View):
    """One partition, who reads it, and how it does."""

    partition: int
    rate_per_s: float
    lag: int
    owners: list[str]


class AssignmentView(View):
    """Who prefers which partitions. A preference: an idle worker takes from the most behind."""

    partitions: list[PartitionView]
    workers: dict[str, float]
    """Share of the traffic by worker."""
    imbalance: float | None
    """The largest share over the mean share; 1 is even, null without workers."""

    @classmethod
    def of(cls, seen: JobSnapshot) -> Self:
        """From the leader's snapshot."""
        traffic = seen.traffic
        shares = {worker.id: worker.share for worker in seen.workers if worker.partitions}
        mean = sum(shares.values()) / len(shares) if shares else 0.0
        return cls(
            partitions=[
                PartitionView(
                    partition=number,
                    rate_per_s=rate,
                    lag=traffic.partition_lags[number] if number < len(traffic.partition_lags) else 0,
                    owners=_owners(number, seen.workers),
                )
                for number, rate in enumerate(traffic.partition_rates)
            ]
            if traffic is not None
            else [],
            workers=shares,
            imbalance=max(shares.values()) / mean if mean > 0 else None,
        )


def _owners(partition: int, workers: list[WorkerView]) -> list[str]:
    return [worker.id for worker in workers if partition in worker.partitions]


class SeriesView(View):
    """The latest ticks as columns, oldest first: what charts need."""

    id: list[str]
    at_s: list[float]
    rate_per_s: list[float | None]
    trained_per_s: list[float | None]
    lag_s: list[float | None]
    capacity_per_s: list[float | None]
    planned: list[int]
    requested: list[int]
    ready: list[int]
    reason: list[Reason]


class FleetView(View):
    """Every job, and their sums."""

    leading: bool
    """Whether the controller that answers leads."""
    jobs: list[JobView]
    degraded: int
    """Jobs whose decisions rest on less than they should."""
    late: int
    """Jobs whose oldest sample is older than promised."""
    planned: int
    requested: int
    ready: int
    gpus_ready: float
    rate_per_s: float
    share: FleetShareView | None = None
    """How the fleet's GPUs are shared; null where no fleet is configured."""


class MeView(View):
    """Who the token belongs to, and what it may do."""

    name: str
    role: Role
    jobs: list[str] | None
    """The jobs it is good for; all when null."""


class ReadinessView(View):
    """Whether this controller can do its work, and what keeps it from it."""

    ready: bool
    leading: bool
    dependencies: dict[str, str] = Field(examples=[{"redis": "ok", "kafka": "ok", "pool": "ok"}])
    """`ok`, or what is wrong, by dependency."""

    @classmethod
    def of(cls, readiness: Readiness) -> Self:
        """The same, as a document."""
        return cls(
            ready=readiness.ready, leading=readiness.leading, dependencies=dict(readiness.dependencies)
        )


class DeletedView(View):
    """What becomes of a deleted job."""

    id: str
    version: int
    workers: str
    ledger: str
    history: str

    @classmethod
    def of(cls, record: JobRecord) -> Self:
        """In words."""
        acts = record.settings.scaling.mode is Mode.ACT and record.settings.pool.kind != "recommend"
        group = record.settings.group_of(record.name)
        kept = "deleted from the store once the workers are gone"
        return cls(
            id=record.name,
            version=record.version,
            workers=(
                f"asked to drain at once; killed after {record.settings.pool.drain_s:g} s"
                if acts
                else "left alone: the job only recommended"
            ),
            ledger=(
                f"{kept}; the commits of group {group} stay in Kafka"
                if record.forget
                else f"kept, as are the commits of group {group}: a job of the same name goes on from there"
            ),
            history=kept
            if record.forget
            else "kept: decisions and state, until a job of the same name goes on",
        )
