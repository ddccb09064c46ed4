"""The share of trained samples that were late, over a rolling week. Pure.

Each completed range is held against the meter's own points: what had arrived
before the freshness promised, counted back from its completion, was late. Ranges
that arrived before the meter began to look, and may or may not have been late,
are not counted at all.
"""

from __future__ import annotations

from services.meter.completed import Completed, CompletedLeases
from services.meter.history import WEEK_S, RateHistory, Resolution
from services.meter.points import EndPoints
from shuffler.lease import Progress

MINUTES = Resolution(60.0, WEEK_S)


class Lateness:
    """Counts of trained and of late samples, minute by minute, for as long as a week."""

    def __init__(self) -> None:
        self._leases = CompletedLeases()
        self.trained = RateHistory(step_s=MINUTES.step_s, resolutions=(MINUTES,))
        self.late = RateHistory(step_s=MINUTES.step_s, resolutions=(MINUTES,))
        self.trained_total = 0.0
        """Samples whose age was told, since the meter was opened."""
        self.late_total = 0.0

    @property
    def share(self) -> float | None:
        """The share of a week's samples that were late; None before any was counted."""
        trained = self.trained.grids[MINUTES.step_s].total()
        return self.late.grids[MINUTES.step_s].total() / trained if trained > 0 else None

    def take(
        self,
        progress: Progress,
        points: EndPoints,
        *,
        at_s: float,
        epoch_s: float,
        fresh_within_s: float,
        records_per_offset: float,
    ) -> None:
        """Count what was completed since the last time. `at_s` is in elapsed seconds.

        `points` must still reach back to what was untrained then: count before pruning.
        """
        done = self._leases.take(progress, at_s=at_s)
        if done.since_s >= done.until_s:
            return
        trained, late = count_late(done, points, fresh_within_s=fresh_within_s)
        from_s, until_s = epoch_s + done.since_s, epoch_s + done.until_s
        self.trained.add(from_s, until_s, trained * records_per_offset)
        self.late.add(from_s, until_s, late * records_per_offset)
        self.trained_total += trained * records_per_offset
        self.late_total += late * records_per_offset


def count_late(done: Completed, points: EndPoints, *, fresh_within_s: float) -> tuple[int, int]:
    """How many of the completed offsets have an age that can be told, and how many of these were late.

    >>> import numpy as np
    >>> points = EndPoints()
    >>> for at_s in range(100):
    ...     points.add(float(at_s), np.array([10 * at_s]))
    >>> done = Completed(((0, 200, 400),), since_s=89.0, until_s=91.0)
    >>> count_late(done, points, fresh_within_s=60.0)
    (200, 100)
    """
    due_s = done.at_s - fresh_within_s
    trained = late = 0
    for partition, start, end in done.ranges:
        first = start if points.reaches(due_s) else min(max(points.oldest_end(partition), start), end)
        trained += end - first
        late += min(max(points.end_at(partition, due_s), first), end) - first
    return trained, late
