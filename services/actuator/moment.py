"""Now, as a pool of processes needs it."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment on two clocks: `wall_s` for facts that others read, `steady_s` for durations.

    A step of the wall clock must neither kill a draining worker early nor stretch a back-off.
    """

    wall_s: float
    steady_s: float

    @classmethod
    def now(cls) -> Moment:
        """This moment."""
        return cls(time.time(), time.monotonic())

    def steady_of(self, wall_s: float, *, at_most_s: float) -> float:
        """The steady time of a wall time that an earlier controller wrote down.

        At most `at_most_s` ago and never in the future, because the wall clock may have been
        stepped since.

        >>> now = Moment(wall_s=1000.0, steady_s=50.0)
        >>> [now.steady_of(wall_s, at_most_s=30.0) for wall_s in (990.0, 0.0, 2000.0)]
        [40.0, 20.0, 50.0]
        """
        return self.steady_s - min(max(self.wall_s - wall_s, 0.0), at_most_s)
