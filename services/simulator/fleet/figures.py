"""What a fleet's run comes to: the figures by which its policies are judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from services.simulator.fleet import layout as at
from services.simulator.fleet.file import FleetFile
from services.simulator.fleet.run import FleetRun


@dataclass(frozen=True, slots=True)
class FleetFigures:
    """The figures of one policy on one fleet."""

    weighted_late_share: float
    """Σ weight · late share over Σ weight, job by job: a job's samples are not another's."""
    late_share_worst: float
    """Of the job that fared worst."""
    jobs_over_target: int
    """Jobs with more than `late_share_target` late."""
    gpu_hours: float
    """GPUs held: starting, ready and draining, to the end of the drain."""
    cost: float
    """GPU-hours at each type's price."""
    guarantee_breach_job_s: float
    """Job-seconds in which a job wanted its guarantee and held less, for longer than making room takes."""
    guarantees_broken: int
    """Jobs to which that happened."""
    contention: float
    """Share of the decisions in which more was wanted than there was."""
    resizes_per_job_day: float
    over_slo_share: float
    """Share of the time in which a job's oldest sample was older than the SLO, by weight."""
    gpus_held_max: int
    """Most GPUs held at once, over minutes."""


def fleet_figures(run: FleetRun, fleet: FleetFile) -> FleetFigures:
    """All figures of a run."""
    weights = np.array([job.weight for job in fleet.jobs])
    weights = weights / max(float(weights.sum()), 1e-12)
    trained = np.maximum(run.sums[:, at.TRAINED], 1e-9)
    late = run.sums[:, at.LATE] / trained
    prices = np.array([kind.price for kind in fleet.gpu_types.values()])
    scored_s = 60.0 * (len(run.held_minutes) - 1)
    return FleetFigures(
        weighted_late_share=float(weights @ late),
        late_share_worst=float(late.max()),
        jobs_over_target=int((late > fleet.late_share_target).sum()),
        gpu_hours=float(run.held_minutes.sum()) / 3600,
        cost=float(run.held_minutes.sum(axis=0) @ prices) / 3600,
        guarantee_breach_job_s=float(run.sums[:, at.BREACH_S].sum()),
        guarantees_broken=int((run.sums[:, at.BREACH_S] > 0).sum()),
        contention=run.contended_share,
        resizes_per_job_day=float(run.resizes.mean()) * 86_400 / scored_s,
        over_slo_share=float(weights @ run.sums[:, at.OVER_SLO_S]) / scored_s,
        gpus_held_max=int(np.ceil(run.held_minutes[:-1].sum(axis=1).max() / 60)),
    )
