"""What a job may count on: who owns it, what it weighs, what it is guaranteed, where it may run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from estimator.fleet.errors import InvalidFleet

FRACTIONS = (0.25, 0.5)
"""Shares of a GPU that a worker may take; beyond those whole GPUs."""


@dataclass(frozen=True, slots=True, order=True)
class JobId:
    """A job by tenant and name: two tenants may use the same name.

    >>> str(JobId("ads", "clicks")), str(JobId("", "clicks"))
    ('ads/clicks', 'clicks')
    """

    tenant: str
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}" if self.tenant else self.name


@dataclass(frozen=True, slots=True)
class Configuration:
    """So many workers on GPUs of one type. None at all has no type."""

    gpu_type: str
    workers: int

    def __bool__(self) -> bool:
        return self.workers > 0


NOTHING = Configuration("", 0)


@dataclass(frozen=True, slots=True)
class Standing:
    """What an operator says of one job towards the others."""

    name: str
    tenant: str = ""
    weight: float = 1.0
    """Against the other jobs of its tenant; 0 is served from what all others leave."""
    guaranteed: int = 0
    """Workers it has whenever it wants them, whatever the others want."""
    gpu_types: tuple[str, ...] = ()
    """Where it may run, the first being where its guarantee is held; empty is any type that has a curve."""
    gpus_per_worker: float = 1.0
    """A quarter, a half, or whole GPUs."""
    workers_min: int = 0
    workers_max: int = 1_000_000
    group: str = ""
    """Same owner, same model: what was learned of one is the prior for the next."""

    def __post_init__(self) -> None:
        label = f"job {self.id}"
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise InvalidFleet(f"{label} has weight {self.weight}; a weight is a number from 0")
        if not 0 <= self.guaranteed <= self.workers_max:
            raise InvalidFleet(
                f"{label} is guaranteed {self.guaranteed} workers of {self.workers_max} at most"
            )
        if not 0 <= self.workers_min <= self.workers_max:
            raise InvalidFleet(
                f"{label} has workers_min {self.workers_min} above workers_max {self.workers_max}"
            )
        if 0 < self.guaranteed < self.workers_min:
            raise InvalidFleet(
                f"{label} is guaranteed {self.guaranteed} workers but needs {self.workers_min} to run at all"
            )
        whole = self.gpus_per_worker >= 1 and float(self.gpus_per_worker).is_integer()
        if not (whole or self.gpus_per_worker in FRACTIONS):
            raise InvalidFleet(
                f"{label} takes {self.gpus_per_worker} GPUs a worker; it is 0.25, 0.5 or a whole number"
            )

    @property
    def id(self) -> JobId:
        """What tells it from every other job of the fleet."""
        return JobId(self.tenant, self.name)

    def may_use(self, gpu_type: str) -> bool:
        """Whether it may run on this type at all."""
        return not self.gpu_types or gpu_type in self.gpu_types

    def gpus(self, workers: int) -> float:
        """GPUs that so many workers take. Quarters and wholes: sums of them are exact."""
        return workers * self.gpus_per_worker
