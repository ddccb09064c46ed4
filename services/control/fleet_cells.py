"""Guarantees of several GPUs a worker: who stands in their way, by where the platform shows the workers.

Eight free GPUs on eight nodes do not hold a worker of eight. The platform chooses the nodes; what it
scattered over cells that a guarantee needs whole is given up, the lightest jobs' first, and no more
than it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from estimator.fleet import Budget, JobId
from estimator.fleet.cells import cells_of
from estimator.fleet.layout import Resident, Shape
from estimator.fleet.placement import placed
from services.control.types import Worker, WorkerPhase

CELLS_EVERY_S = 60.0
"""Looked at so often: workers that come and go within a minute have not scattered yet."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """One job as the cells see it."""

    job: JobId
    weight: float
    guaranteed: int
    """Workers that are kept for it, what is lent taken off."""
    home: str
    """The type on which they are kept."""
    gpus_per_worker: float
    workers: tuple[Worker, ...]

    @property
    def needs_cells(self) -> bool:
        """Whether its guarantee can be scattered: one GPU is a cell wherever it is."""
        return self.guaranteed > 0 and self.gpus_per_worker > 1


def in_the_way(budget: Budget, sittings: Sequence[Sitting]) -> dict[JobId, tuple[str, ...]]:
    """By job, the workers beyond its guarantee that have to go so that every guarantee finds its cells.

    Workers whose node nobody tells are nowhere, and in nobody's way.
    """
    leaving: dict[JobId, tuple[str, ...]] = {}
    for kind in {sitting.home for sitting in sittings if sitting.needs_cells} & budget.gpus.keys():
        nodes = [node for node in budget.there if node.gpu_type == kind]
        names = {node.name for node in nodes}
        parts = [part for sitting in sittings for part in _parts(sitting, kind, names)]
        shapes = [part.shape for part in parts]
        residents = [
            Resident(part.shape.job, node, len(ids)) for part in parts for node, ids in part.by_node.items()
        ]
        targets = {part.shape.job: sum(map(len, part.by_node.values())) for part in parts}
        placement = placed(cells_of(nodes), shapes, residents, targets)
        for part in parts:
            count = placement.evicted.get(part.shape.job, 0)
            seats = {seat.node: seat.workers for seat in placement.seats if seat.job == part.shape.job}
            surplus = [name for node, ids in part.by_node.items() for name in ids[seats.get(node, 0) :]]
            if count and surplus and not part.protected:
                leaving[part.job] = (*leaving.get(part.job, ()), *surplus[:count])
    return leaving


class Scattered:
    """Who is in the way now. Looked at once a minute, and only where a guarantee needs cells."""

    def __init__(self) -> None:
        self._found: dict[JobId, tuple[str, ...]] = {}
        self._at_s = -math.inf

    def of(
        self, job: JobId, sittings: Callable[[], Sequence[Sitting]], budget: Budget, *, now_s: float
    ) -> tuple[str, ...]:
        """The job's workers that have to go."""
        if not 0 <= now_s - self._at_s < CELLS_EVERY_S:
            everybody, self._at_s = sittings(), now_s
            needed = any(sitting.needs_cells for sitting in everybody)
            self._found = in_the_way(budget, everybody) if needed else {}
        return self._found.get(job, ())


@dataclass(frozen=True, slots=True)
class _Part:
    """Workers of a job that are guaranteed, or those that are not."""

    job: JobId
    shape: Shape
    by_node: dict[str, list[str]]
    protected: bool


def _parts(sitting: Sitting, kind: str, names: set[str]) -> list[_Part]:
    """A job whose workers need cells is one part; of another, what is guaranteed is not to be moved."""
    present = sorted(
        (
            worker
            for worker in sitting.workers
            if worker.node in names and worker.phase is not WorkerPhase.FAILED
        ),
        key=lambda worker: (worker.started_at_s, worker.id),
    )
    guaranteed = sitting.guaranteed if sitting.home == kind else 0
    job, gpus = sitting.job, sitting.gpus_per_worker
    if sitting.needs_cells:
        shape = Shape(job, sitting.weight, guaranteed, gpus)
        return [_Part(job, shape, _by_node(present), protected=False)]
    kept, surge = present[:guaranteed], present[guaranteed:]
    first = Shape(JobId(job.tenant, f"{job.name} (guaranteed)"), math.inf, 0, gpus)
    return [
        _Part(job, first, _by_node(kept), protected=True),
        _Part(job, Shape(job, sitting.weight, 0, gpus), _by_node(surge), protected=False),
    ]


def _by_node(workers: Sequence[Worker]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for worker in workers:
        found.setdefault(worker.node, []).append(worker.id)
    return found
