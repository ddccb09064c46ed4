"""Jobs that are to change GPU types with each other in a full fleet: who gives way first, and by how much.

None of them can grow on its new type before another has left it. So some that are to leave a type give up a
part of it first; the one that waits moves into that part, and what it leaves lets the others move in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from estimator.fleet.standing import JobId

GIVES_WAY = 0.5
"""What a job trains of what it did, at the least, while it gives way. Others wait for it and it for others, a
lead time each: half of that twice is what a move was reckoned to cost, which is all of one."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the jobs, on the type that changes hands."""

    job: JobId
    satisfaction: tuple[float, ...]
    """With no worker, one, two, ... of that type: up to what it has of it, or is to have."""
    least: int
    """Workers with which it trains enough meanwhile: its guarantee, and `GIVES_WAY` of what it did."""
    gpus_per_worker: float = 1.0

    @property
    def most(self) -> int:
        """What it has, or is to have."""
        return len(self.satisfaction) - 1


@dataclass(frozen=True, slots=True)
class WayIn:
    """How many workers the one may begin with, and to how many the others go down for it."""

    workers: int
    yields: Mapping[JobId, int]
    satisfaction: float
    """Of the least satisfied of them meanwhile."""


def way_in(mover: Side, free_gpus: float, leavers: Sequence[Side]) -> WayIn | None:
    """The way that leaves the least satisfied of them best off; None where nobody can give enough.

    Workers are taken one by one from whoever is best off without it, for as long as the one that moves in
    is no better off, or has not enough to begin with. Nobody goes below its least.

    >>> ads = Side(JobId("", "ads"), (0.0, 0.25, 0.5, 0.75, 1.0), least=2)
    >>> feed = Side(JobId("", "feed"), (0.0, 0.25, 0.5, 0.75, 1.0), least=1)
    >>> way = way_in(ads, 0.0, [feed])
    >>> way.workers, dict(way.yields)
    (2, {JobId(tenant='', name='feed'): 2})
    """
    keeps = {side.job: side.most for side in leavers}
    workers, free = 0, free_gpus
    while workers < mover.most:
        while free < mover.gpus_per_worker:
            able = [side for side in leavers if keeps[side.job] > side.least]
            if not able:
                break
            best = max(able, key=lambda side: (side.satisfaction[keeps[side.job] - 1], side.job))
            after = best.satisfaction[keeps[best.job] - 1]
            if workers >= mover.least and after < mover.satisfaction[workers]:
                break
            keeps[best.job] -= 1
            free += best.gpus_per_worker
        if free < mover.gpus_per_worker:
            break
        free -= mover.gpus_per_worker
        workers += 1
    if workers < max(mover.least, 1):
        return None
    yields = {side.job: keeps[side.job] for side in leavers if keeps[side.job] < side.most}
    worst = min([mover.satisfaction[workers], *(side.satisfaction[keeps[side.job]] for side in leavers)])
    return WayIn(workers, yields, worst)
