"""A plan's counts, seated on nodes: what finds no place without breaking up a guarantee is not given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from estimator.fleet.budget import Budget
from estimator.fleet.cells import cells_of
from estimator.fleet.guarantees import homes_of
from estimator.fleet.layout import Resident, Shape
from estimator.fleet.placement import Placement, check_topology, placed
from estimator.fleet.plan import Allotment, Binding, FleetPlan
from estimator.fleet.standing import NOTHING, Configuration, JobId, Standing
from estimator.fleet.wish import Wish


@dataclass(frozen=True, slots=True)
class Seating:
    """A plan with a place for each of its workers."""

    plan: FleetPlan
    placements: Mapping[str, Placement] = field(default_factory=dict)
    """By GPU type."""


def seated(
    budget: Budget,
    wishes: Sequence[Wish],
    plan: FleetPlan,
    residents: Sequence[Resident],
    *,
    lent: Mapping[JobId, int] | None = None,
) -> Seating:
    """Places for what a plan gives, from where everybody is now.

    `lent` are workers of a job's guarantee that it can do without for the time being: no cells are
    held for those. A job whose workers find too few places has fewer, and its binding says so.
    """
    lent = lent or {}
    homes = homes_of([wish.job for wish in wishes], budget)
    targets: dict[str, dict[JobId, int]] = {}
    for allotment in plan.allotments:
        if allotment.given:
            targets.setdefault(allotment.given.gpu_type, {})[allotment.job] = allotment.given.workers
    weights = {allotment.job: allotment.weight for allotment in plan.allotments}
    placements = {}
    for kind in budget.gpus:
        nodes = [node for node in budget.there if node.gpu_type == kind]
        names = {node.name for node in nodes}
        shapes = [_shape(wish.job, weights[wish.id], kind, homes, lent) for wish in wishes]
        here = [resident for resident in residents if resident.node in names]
        placements[kind] = placed(cells_of(nodes), shapes, here, targets.get(kind, {}))
    allotments = tuple(
        _given_places(wish, allotment, placements)
        for wish, allotment in zip(wishes, plan.allotments, strict=True)
    )
    return Seating(replace(plan, allotments=allotments), placements)


def check_guarantees(budget: Budget, jobs: Sequence[Standing]) -> None:
    """Refuse guarantees that the declared budget cannot hold, by their sum or by their cells."""
    whole = replace(budget, lost=frozenset())
    homes = homes_of(jobs, whole)
    for kind in whole.gpus:
        nodes = [node for node in whole.nodes if node.gpu_type == kind]
        shapes = [_shape(job, job.weight, kind, homes, {}) for job in jobs]
        check_topology(cells_of(nodes), shapes, kind)


def _shape(
    job: Standing, weight: float, gpu_type: str, homes: Mapping[JobId, str], lent: Mapping[JobId, int]
) -> Shape:
    held = max(0, job.guaranteed - lent.get(job.id, 0)) if homes.get(job.id) == gpu_type else 0
    return Shape(job.id, weight, held, job.gpus_per_worker)


def _given_places(wish: Wish, allotment: Allotment, placements: Mapping[str, Placement]) -> Allotment:
    at = allotment.given
    missing = placements[at.gpu_type].refused.get(allotment.job, 0) if at else 0
    if not missing:
        return allotment
    workers = at.workers - missing
    given = Configuration(at.gpu_type, workers) if workers >= max(1, wish.job.workers_min) else NOTHING
    trained = max(wish.curves[at.gpu_type][: given.workers + 1]) if given else 0.0
    satisfaction = min(1.0, trained / wish.demand_per_s) if wish.demand_per_s > 0 else 1.0
    return replace(allotment, given=given, satisfaction=satisfaction, binding=Binding.PLACE)
