"""On which type each guarantee is held, and whether all of them fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from estimator.fleet.budget import Budget
from estimator.fleet.errors import GuaranteesExceedBudget
from estimator.fleet.standing import JobId, Standing


def homes_of(jobs: Iterable[Standing], budget: Budget) -> dict[JobId, str]:
    """The type that holds each job's guarantee.

    What is declared must hold every guarantee, else nothing is decided. While nodes are lost, the
    guarantees that no longer fit at home move to another type that their jobs may use; those that
    fit nowhere stay, and the heap shares what there is.
    """
    guaranteed = sorted((job for job in jobs if job.guaranteed), key=lambda job: job.id)
    if not guaranteed:
        return {}
    declared = budget.declared
    homes, room = _settled(guaranteed, declared)
    if any(left < 0 for left in room.values()):
        raise GuaranteesExceedBudget(
            {kind: declared.get(kind, 0) - left for kind, left in room.items()}, declared
        )
    if budget.lost:
        homes = _resettled(guaranteed, homes, budget.gpus)
    return homes


def _settled(
    jobs: Sequence[Standing], declared: Mapping[str, int]
) -> tuple[dict[JobId, str], dict[str, float]]:
    """Homes, and what is left of each type; less than nothing where too much is guaranteed."""
    room: dict[str, float] = dict(declared)
    homes: dict[JobId, str] = {}
    # Whoever may run anywhere comes last, and takes the first type with room.
    for job in sorted(jobs, key=lambda job: not job.gpu_types):
        need = job.gpus(job.guaranteed)
        if job.gpu_types:
            home = next((kind for kind in job.gpu_types if kind in declared), job.gpu_types[0])
        else:
            home = next((kind for kind in declared if room[kind] >= need), next(iter(declared), ""))
        homes[job.id] = home
        room[home] = room.get(home, 0.0) - need
    return homes, room


def _resettled(
    jobs: Sequence[Standing], homes: Mapping[JobId, str], there: Mapping[str, int]
) -> dict[JobId, str]:
    """Homes on what is there: first all who fit at home, then the others."""
    room: dict[str, float] = dict(there)
    after: dict[JobId, str] = {}
    homeless: list[Standing] = []
    for job in jobs:
        home, need = homes[job.id], job.gpus(job.guaranteed)
        if room.get(home, 0.0) >= need:
            room[home] -= need
            after[job.id] = home
        else:
            homeless.append(job)
    for job in homeless:
        need = job.gpus(job.guaranteed)
        home = next((kind for kind in room if job.may_use(kind) and room[kind] >= need), homes[job.id])
        room[home] = room.get(home, 0.0) - need
        after[job.id] = home
    return after
