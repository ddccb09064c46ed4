"""What the jobs of a fleet will want over days, for questions about what is ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from estimator.fleet import Standing
from estimator.fleet.demand_ahead import demand_ahead
from estimator.fleet.future import Outlook
from services.control.fleet_share import FleetShare
from services.control.types import Reason
from services.controller.journal import JobStatus
from services.settings import JobSettings

STEP_S = 3_600.0
HORIZONS = (24, 168)
"""A day and a week, in steps."""
CURVE_MAX = 512
"""Workers up to which a job's curve is drawn for a question about days ahead."""


def outlooks_of(
    jobs: Mapping[str, JobSettings],
    share: FleetShare,
    status_of: Callable[[str], JobStatus | None],
    *,
    now_s: float,
) -> Iterable[Outlook]:
    """Of the jobs that have ticked: one that nobody has observed is a guarantee at most."""
    for name, job in sorted(jobs.items()):
        standing, status, kind = job.standing(name), status_of(name), share.kind_of(name)
        decision, seen = (status.decision, status.seen) if status is not None else (None, None)
        if kind is None or decision is None or seen is None or seen.history is None:
            continue
        if Reason.RECOMMEND_ONLY in decision.notes:
            continue
        model = decision.state.throughput.model
        most = min(standing.workers_max, CURVE_MAX)
        demand = demand_ahead(seen.history, seen.forecast, now_s=now_s, steps=max(HORIZONS), step_s=STEP_S)
        curve = tuple(model.low(workers) for workers in range(most + 1))
        yield Outlook(standing, {kind: curve}, demand, job.slo.fresh_within_s)


def newcomer(
    standing: Standing, rates: Mapping[str, float], hourly_per_s: Sequence[float], *, slo_s: float
) -> Outlook:
    """A job that is not there yet, as somebody describes it: a lone worker's rate by type, traffic by hour.

    The hours repeat until a week is full. Raises InvalidFleet.
    """
    week = tuple(hourly_per_s[hour % len(hourly_per_s)] for hour in range(max(HORIZONS)))
    most = min(standing.workers_max, CURVE_MAX)
    curves = {
        kind: tuple(rate * workers / (1 + 0.02 * max(0, workers - 1)) for workers in range(most + 1))
        for kind, rate in rates.items()
    }
    return Outlook(standing, curves, week, slo_s)
