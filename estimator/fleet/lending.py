"""Lending what is guaranteed and idle, so that it is back before its owner needs it (AntMan)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate

from estimator.fleet.errors import InvalidFleet
from estimator.fleet.standing import JobId
from forecasting.forecast import Forecast

YIELD_AT = 1.05
"""Times the step of a guaranteed worker alone: from here on whoever shares its GPU yields."""


@dataclass(frozen=True, slots=True)
class LendingTerms:
    """How carefully a fleet lends."""

    level: float = 0.95
    """A loan is out only where the owner's need stays below it with this probability."""
    return_s: float = 60.0
    """From asking a lent GPU back until it is free: the borrower's drain."""
    useful_s: float = 600.0
    """A loan that would be called back sooner than this is not begun; one that is out is kept."""

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidFleet(f"level is {self.level}; it is in (0, 1)")
        if not (self.return_s >= 0 and self.useful_s >= 0):
            raise InvalidFleet("return_s and useful_s are seconds from 0")


@dataclass(frozen=True, slots=True)
class Owner:
    """A job whose guarantee, or whose warm standbys, may be lent."""

    job: JobId
    held: int
    """Workers guaranteed to it and standbys kept for it: what it could have at once."""
    curve: tuple[float, ...]
    """C_low(0), C_low(1), ... on the type where that is held."""
    forecast: Forecast | None
    """Of its demand. Without one nothing is known to be idle, and nothing is lent."""
    lead_time_s: float
    """From asking for a worker to its first trained batch."""
    wished: int
    """Workers that it wants now."""
    lent: int = 0
    """What is out now."""


@dataclass(frozen=True, slots=True)
class Loan:
    """What of a job's hold may be out."""

    job: JobId
    workers: int
    """To be out from now on; less than is out now is called back at once."""
    needed: int
    """Workers that the owner may need while a loan could not be back."""


def loan_of(owner: Owner, terms: LendingTerms, *, now_s: float) -> Loan:
    """As many as the owner will not need before they could be back and at work for it.

    A GPU asked back now is free after `return_s` and trains for its owner a lead time later: what may
    be needed until then, at the level that was promised, stays. A new loan has to last a while beyond
    that, so that a forecast that breathes does not start and stop borrowers.
    """
    if owner.forecast is None:
        return Loan(owner.job, 0, owner.held)
    notice_s = terms.return_s + owner.lead_time_s
    soon = _needed(owner, owner.forecast, terms.level, now_s, notice_s)
    later = _needed(owner, owner.forecast, terms.level, now_s, notice_s + terms.useful_s)
    most, fewest = max(0, owner.held - soon), max(0, owner.held - later)
    return Loan(owner.job, max(fewest, min(owner.lent, most)), soon)


def _needed(owner: Owner, forecast: Forecast, level: float, now_s: float, ahead_s: float) -> int:
    """Workers that carry the highest demand at `level` from now on; all that is held where none do."""
    peak = forecast.peak(level, from_s=now_s, until_s=now_s + ahead_s)
    rising = accumulate(owner.curve, max)
    enough = next((workers for workers, rate in enumerate(rising) if rate >= peak), owner.held)
    return min(owner.held, max(enough, owner.wished))


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A guaranteed worker and one that shares its GPU for as long as it does no harm.

    >>> pair = Neighbourhood().alone(0.100).shared(0.104)
    >>> pair.yields, pair.shared(0.106).yields
    (False, True)
    """

    alone_s: float | None = None
    """A step of the guaranteed worker without company, smoothed."""
    shared_s: float | None = None
    """The last step with company."""
    share: float = 0.2
    """What a new step counts in the smoothed one."""

    def alone(self, step_s: float) -> Neighbourhood:
        """A step without company: what it takes when it is not disturbed."""
        before = step_s if self.alone_s is None else self.alone_s
        return replace(self, alone_s=before + self.share * (step_s - before), shared_s=None)

    def shared(self, step_s: float) -> Neighbourhood:
        """A step, the mean of a window, in company."""
        return replace(self, shared_s=step_s)

    @property
    def yields(self) -> bool:
        """Whether the opportunistic worker has to go: the guaranteed one takes 5 % longer with it.

        Where nobody measured the guaranteed worker alone, nothing can be said to be harmless.
        """
        if self.shared_s is None:
            return False
        return self.alone_s is None or self.shared_s >= YIELD_AT * self.alone_s
