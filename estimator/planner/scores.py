"""How good forecasts were at the lead time: the planner's own, and the one it is given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

MEMORY = 200.0
"""Scored forecasts that a score remembers."""
SURE_AFTER = 30
"""Fewer scored forecasts than this decide nothing."""
PENDING_MAX = 64
NARROWEST = 0.5
"""However right a given forecast has been, futures stay at least this wide."""
BAD = 9.0
"""Squared error over expected variance beyond which the own forecast is not to be followed."""


@dataclass(frozen=True, slots=True)
class Said:
    """Log rates forecast for the bin that ends at `due_s`."""

    due_s: float
    own: float
    given: float | None
    variance: float


@dataclass(frozen=True, slots=True)
class Scores:
    """Mean squared errors of log rates, the recent ones counting more."""

    own: float = 0.0
    given: float = 0.0
    both: float = 0.0
    """Mean product of the two errors: how much they err together."""
    strain: float = 1.0
    """Squared own error over the variance that was expected."""
    own_count: int = 0
    given_count: int = 0
    pending: tuple[Said, ...] = ()

    def said(self, said: Said) -> Scores:
        """Keep a forecast until its bin has been seen."""
        if self.pending and self.pending[-1].due_s >= said.due_s:
            return self
        return replace(self, pending=(*self.pending, said)[-PENDING_MAX:])

    def seen(self, end_s: float, level: float) -> Scores:
        """The bin that ends at `end_s` had the log rate `level`."""
        if not self.pending or self.pending[0].due_s > end_s + 1e-6:
            return self
        due = [said for said in self.pending if abs(said.due_s - end_s) <= 1e-6]
        left = tuple(said for said in self.pending if said.due_s > end_s + 1e-6)
        own, given, both, strain = self.own, self.given, self.both, self.strain
        owns, givens = self.own_count, self.given_count
        for said in due:
            error = (said.own - level) ** 2
            owns += 1
            own += (error - own) / min(owns, MEMORY)
            # One catastrophe is no bad forecaster: what strains must last.
            strain += (min(error / max(said.variance, 1e-8), 4 * BAD) - strain) / min(owns, MEMORY)
            if said.given is not None:
                givens += 1
                given += ((said.given - level) ** 2 - given) / min(givens, MEMORY)
                both += ((said.given - level) * (said.own - level) - both) / min(givens, MEMORY)
        return Scores(own, given, both, strain, owns, givens, left)

    @property
    def trust(self) -> float:
        """The weight of the given forecast: the mix that would have erred the least.

        Two that err alike are not better together: the worse one then gets nothing.

        >>> Scores(own=0.01, given=0.01, own_count=99, given_count=99).trust
        0.5
        >>> Scores(own=0.01, given=0.012, both=0.0105, own_count=99, given_count=99).trust
        0.0
        """
        apart = self.own + self.given - 2 * self.both
        if self.given_count < SURE_AFTER or apart <= 1e-12:
            return 0.0
        return min(max((self.own - self.both) / apart, 0.0), 1.0)

    @property
    def narrowing(self) -> float:
        """Error of the mix over the own one's: how much surer the given forecast makes the planner.

        >>> round(Scores(own=0.01, given=0.01, own_count=99, given_count=99).narrowing, 2)
        0.71
        """
        trust = self.trust
        if trust <= 0 or self.own <= 0:
            return 1.0
        mixed = (1 - trust) ** 2 * self.own + trust**2 * self.given + 2 * trust * (1 - trust) * self.both
        return min(max(math.sqrt(max(mixed, 0.0) / self.own), NARROWEST), 1.0)

    @property
    def is_bad(self) -> bool:
        """Whether the own forecast has lately erred far beyond what it expected of itself."""
        return self.own_count >= SURE_AFTER and self.strain > BAD
