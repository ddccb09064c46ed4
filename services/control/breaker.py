"""A circuit breaker: after several failures in a row, wait before trying again, longer each time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class BreakerPhase(StrEnum):
    """What a breaker lets through."""

    CLOSED = "closed"
    """Everything."""
    OPEN = "open"
    """Nothing."""
    HALF_OPEN = "half_open"
    """One try; its outcome closes the breaker or opens it for twice as long."""


@dataclass(frozen=True, slots=True)
class BreakerTerms:
    """When a breaker opens, and for how long."""

    failures: int = 5
    """In a row."""
    open_s: float = 30.0
    """The first time; twice as long each time that a try fails again."""
    open_max_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Breaker:
    """What a breaker remembers. `until_s` is None while it is closed.

    >>> terms = BreakerTerms(failures=2, open_s=30.0)
    >>> breaker = Breaker().failed(0.0, "refused", terms).failed(5.0, "refused", terms)
    >>> breaker.phase(10.0).value, breaker.phase(35.0).value, breaker.succeeded().phase(10.0).value
    ('open', 'half_open', 'closed')
    """

    failures: int = 0
    """In a row."""
    openings: int = 0
    """In a row: how often it has opened since something succeeded."""
    until_s: float | None = None
    why: str = ""
    """What failed last."""

    def phase(self, now_s: float) -> BreakerPhase:
        """By now."""
        if self.until_s is None:
            return BreakerPhase.CLOSED
        return BreakerPhase.OPEN if now_s < self.until_s else BreakerPhase.HALF_OPEN

    def failed(self, now_s: float, why: str, terms: BreakerTerms) -> Breaker:
        """One more failure. One that is told of while the breaker is open changes nothing but the words."""
        failures, phase = self.failures + 1, self.phase(now_s)
        if phase is BreakerPhase.OPEN or (phase is BreakerPhase.CLOSED and failures < terms.failures):
            return Breaker(failures, self.openings, self.until_s, why)
        return Breaker(failures, self.openings + 1, now_s + _wait_s(self.openings, terms), why)

    def aged(self, now_s: float, terms: BreakerTerms) -> Breaker:
        """Open for no longer than it waits, though the clock was set back since.

        >>> Breaker(openings=1, until_s=3630.0).aged(0.0, BreakerTerms(open_s=30.0)).until_s
        30.0
        """
        if self.until_s is None:
            return self
        latest_s = now_s + _wait_s(max(self.openings - 1, 0), terms)
        return self if self.until_s <= latest_s else replace(self, until_s=latest_s)

    def succeeded(self) -> Breaker:
        """All is well again."""
        return Breaker()


def _wait_s(openings: int, terms: BreakerTerms) -> float:
    """How long it is open after that many openings in a row before this one."""
    # Beyond some sixty openings the power would not fit a float; the longest wait came long before.
    return min(terms.open_s * 2.0 ** min(openings, 60), max(terms.open_s, terms.open_max_s))
