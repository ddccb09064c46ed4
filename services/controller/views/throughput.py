"""What n workers can train, and how soon they come, as a document."""

from __future__ import annotations

from typing import Self

from estimator.capacity import LearnedCapacity
from estimator.lead_time import Failures
from estimator.situation import Slo
from estimator.throughput import Bottleneck, Confidence
from services.control.types import Decision, Observation, Reason
from services.controller.views.view import View
from services.settings import JobSettings

CURVE_MAX = 512


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
    """Telemetry that could not be true, by kind; `report` counts workers passed over, at every tick."""
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
        lost = Slo(settings.slo.fresh_within_s).is_lost(
            lag_s=seen.traffic.lag_s,
            rate_per_s=seen.traffic.rate_per_s,
            able_per_s=model.samples_per_s(len(pool.ready)),
            lead_time_s=pool.lead_time_s,
        )
        most_ever, requested = settings.scaling.workers_max, seen.pool.requested
        low = LearnedCapacity.of(model, slo_broken=lost, workers_max=most_ever, requested=requested)
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
            refused={**model.knowledge.lies, **({"report": learned.refused} if learned.refused else {})},
            forgotten=model.knowledge.drift.alarms,
            lead_time_s=pool.lead_time_s,
            pause_s=pool.pause_s,
            start_failure_share=failures.start_share,
            failures_per_worker_day=failures.per_worker_day,
        )


def _bottleneck(seen: Observation, decision: Decision, settings: JobSettings) -> str:
    partitions = len(seen.traffic.partition_rates)
    bounds = {
        Reason.AT_PARTITIONS: f"partitions: without leases, {partitions} workers is the most",
        Reason.AT_STALENESS: f"staleness: {settings.workers_unstale_max} workers keep gradients fresh enough",
        Reason.AT_MAXIMUM: f"workers_max: {settings.scaling.workers_max} workers is the most allowed",
    }
    if seen.pool.most is not None and decision.planned >= seen.pool.most:
        bounds[Reason.AT_PLATFORM] = f"the platform: it takes {seen.pool.most} workers at most"
    for reason, said in bounds.items():
        if reason in decision.notes:
            return said
    wall = decision.state.throughput.model.wall
    if wall is not None:
        what = f"{wall.binding.bottleneck.value} {wall.binding.resource}".replace("_", " ").strip()
        return f"{what}: more than {wall.workers} workers trained hardly more"
    if decision.planned > seen.pool.ready:
        return f"workers: {decision.planned - seen.pool.ready} more are asked for and not ready yet"
    if seen.traffic.lag_s > settings.slo.fresh_within_s:
        return "workers: the pool trains all it can and is behind"
    return "traffic: the workers train what arrives"
