"""How long to wait before a worker that keeps dying is started again."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Backoff:
    """Each early death in a row doubles the wait; a worker that proved itself starts afresh.

    >>> [Backoff(first_s=1.0, longest_s=60.0).wait_s(strikes) for strikes in range(8)]
    [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]
    """

    first_s: float = 1.0
    longest_s: float = 60.0
    healthy_s: float = 30.0
    """A worker ready for this long has proved itself: its death is an accident, not a crash loop."""

    def wait_s(self, strikes: int) -> float:
        """The wait after that many early deaths in a row; none after none."""
        if strikes <= 0:
            return 0.0
        doublings = min(strikes - 1, 62)  # beyond this a float power only overflows
        return min(self.longest_s, self.first_s * 2.0**doublings)

    def strikes_after(self, strikes: int, *, ready_for_s: float | None) -> int:
        """The strikes once a worker has died; `ready_for_s` is None when it never was ready."""
        if ready_for_s is not None and ready_for_s >= self.healthy_s:
            return 0
        return strikes + 1


@dataclass(frozen=True, slots=True)
class Vacancy:
    """A place in the pool without a worker, to be filled at `due_s` (steady time).

    `why` is empty for a place that nobody has had yet.
    """

    due_s: float
    strikes: int = 0
    why: str = ""
    last_line: str = ""
    lost: str = ""
    """The worker that had the place."""
    lost_started_at_s: float = 0.0
    """When that one was started (wall time)."""

    def waiting(self, now_s: float) -> str:
        """Why the place is still empty, for an operator.

        >>> Vacancy(due_s=8.0, strikes=4, why="w-7 exited with code 3", last_line="no topic").waiting(0.5)
        'w-7 exited with code 3; 4th time; next try in 8 s; last log line: no topic'
        """
        return f"{self._history()}; next try in {ceil(max(0.0, self.due_s - now_s))} s{self._log()}"

    def retried(self, worker: str) -> str:
        """What went before `worker`, which now tries in its place."""
        return f"{self._history()}; {worker} is starting in its place{self._log()}"

    def _history(self) -> str:
        return f"{self.why}; {_ordinal(self.strikes)} time" if self.strikes > 1 else self.why

    def _log(self) -> str:
        return f"; last log line: {self.last_line}" if self.last_line else ""


def _ordinal(number: int) -> str:
    """
    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 12, 21, 102)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '102nd']
    """
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"
