"""How much of each GPU type will be wished, hour by hour, against what there is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from estimator.fleet.budget import Budget
from estimator.fleet.future import Outlook


@dataclass(frozen=True, slots=True)
class TypeAhead:
    """One type over the steps to come."""

    gpu_type: str
    gpus: int
    wished: tuple[float, ...]
    """GPUs that the jobs which are on it would take if each were alone, by step."""

    @property
    def short_from(self) -> int | None:
        """The first step in which more is wished than there is; None where that never is."""
        return next((step for step, wished in enumerate(self.wished) if wished > self.gpus), None)


def contention_ahead(budget: Budget, outlooks: Sequence[Outlook], *, steps: int) -> tuple[TypeAhead, ...]:
    """By type, what the jobs will want; each on the first type of its curves, the one that it is on.

    Nothing is shared or carried over: it tells when there will not be enough, not who gets what.
    """
    wished = {kind: [0.0] * steps for kind in budget.gpus}
    for outlook in outlooks:
        kind, curve = next(iter(outlook.curves.items()), ("", ()))
        if kind in wished:
            rising = list(accumulate(curve, max))
            for step in range(steps):
                wished[kind][step] += outlook.job.gpus(_enough(rising, outlook, step))
    return tuple(TypeAhead(kind, gpus, tuple(wished[kind])) for kind, gpus in budget.gpus.items())


def _enough(rising: Sequence[float], outlook: Outlook, step: int) -> int:
    """The fewest workers that train what arrives; the most that help where none do."""
    job, demand = outlook.job, outlook.at(step)
    best = bisect_left(rising, rising[-1])
    enough = min(bisect_left(rising, demand), best) if demand > 0 else 0
    return min(max(enough, job.workers_min), job.workers_max)
