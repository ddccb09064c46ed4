"""What everybody gets, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from estimator.fleet.standing import Configuration, JobId


class Method(StrEnum):
    """How a plan was found."""

    WISHES = "wishes"
    """No contention: everybody has the wish."""
    HEAP = "heap"
    """Guarantees, then the next worker to the least satisfied, type by type."""
    PROGRAMME = "programme"
    """The integer programme over types."""
    FALLBACK = "fallback"
    """The heap, because the programme failed or found nothing in time."""


class Binding(StrEnum):
    """Which limit kept a job from more."""

    WISH = "wish"
    """None: it has what it asked for, or something that trains its demand as well."""
    CAPACITY = "capacity"
    """The GPUs it may use are given to jobs with a better claim."""
    EFFICIENCY = "efficiency"
    """One more worker would add too little while others lack."""
    PINNED = "pinned"
    """It is in the middle of a resize."""
    NO_TYPE = "no_type"
    """None of the types it may run on is there."""
    PLACE = "place"
    """GPUs are free, but taking them would break up what is guaranteed to others."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """What one job asked, what it got, and what bound it."""

    job: JobId
    asked: Configuration
    given: Configuration
    satisfaction: float
    """min(1, C_low(given) / demand); 1 where nothing is demanded."""
    weight: float
    """In the whole fleet, its tenants' weights included."""
    binding: Binding
    gpus_per_worker: float = 1.0
    worth: Mapping[str, float] = field(default_factory=dict)
    """By type: satisfaction that one more GPU would add, if it were there."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """One decision for all jobs of a tick."""

    allotments: tuple[Allotment, ...]
    """In the order of the wishes."""
    method: Method
    contended: tuple[str, ...] = ()
    """Types of which more is wished than there is."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Shadow price by type: weighted satisfaction that one more GPU would add; 0 where some are left."""
    gap: float = 0.0
    """How far the programme's solution may be from its optimum, as a share."""
    note: str = ""
    """Why the method is not the one that was due, in words; empty when it is."""

    def of(self, job: JobId) -> Allotment:
        """What one job got.

        A job that had no wish in this plan is a KeyError.
        """
        for allotment in self.allotments:
            if allotment.job == job:
                return allotment
        raise KeyError(job)
