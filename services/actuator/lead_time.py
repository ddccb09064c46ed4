"""How long workers took from being asked for to being ready: facts for the estimator to learn from."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeadTime:
    """One worker's start: asked for at `asked_at_s`, ready `took_s` later."""

    worker: str
    asked_at_s: float
    took_s: float

    def __post_init__(self) -> None:
        if not self.took_s >= 0:  # also rejects NaN
            raise ValueError(f"worker {self.worker}: a lead time of {self.took_s} s cannot be")


class LeadTimes:
    """The latest lead times of a pool, oldest first. Bounded: old starts say little of the next one.

    A worker that never became ready is not here: it has no lead time, and the pool reports it as
    a failure.

    >>> times = LeadTimes(keep=2)
    >>> for number in range(3):
    ...     times.note(LeadTime(f"w-{number}", asked_at_s=10.0 * number, took_s=4.0))
    >>> [start.worker for start in times.recent()]
    ['w-1', 'w-2']
    """

    def __init__(self, *, keep: int = 256) -> None:
        self._latest: deque[LeadTime] = deque(maxlen=keep)

    def note(self, lead_time: LeadTime) -> None:
        """Remember one start."""
        self._latest.append(lead_time)

    def recent(self) -> tuple[LeadTime, ...]:
        """What is remembered, oldest first."""
        return tuple(self._latest)
