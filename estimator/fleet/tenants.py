"""Tenants in a tree, and what each job weighs in the whole fleet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from estimator.fleet.errors import InvalidFleet, UnknownTenant
from estimator.fleet.standing import JobId, Standing

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who owns jobs, or other tenants."""

    name: str
    weight: float = 1.0
    """Against the tenants beside it; 0 is served from what all others leave."""
    parent: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidFleet("a tenant needs a name; jobs of no tenant stand at the top of the tree")
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise InvalidFleet(f"tenant {self.name!r} has weight {self.weight}; a weight is a number from 0")


@dataclass(frozen=True, slots=True)
class Tenants:
    """The tree. With no tenant named at all, a job's tenant is only part of its name."""

    tenants: tuple[Tenant, ...] = ()

    def __post_init__(self) -> None:
        known = {tenant.name: tenant for tenant in self.tenants}
        if len(known) < len(self.tenants):
            raise InvalidFleet("two tenants have the same name; a tenant's name is its identity")
        for tenant in self.tenants:
            seen: set[str] = set()
            at = tenant
            while at.parent:
                if at.name in seen:
                    raise InvalidFleet(f"tenant {tenant.name!r} is its own ancestor")
                seen.add(at.name)
                if at.parent not in known:
                    raise UnknownTenant(at.parent, f"tenant {at.name!r}")
                at = known[at.parent]

    def weights(self, jobs: Iterable[Standing]) -> dict[JobId, float]:
        """What each job weighs against every other one.

        Beside each other, weights are taken relative to their mean, level by level: a tenant cannot
        gain by giving all its jobs a weight of 100. Zero stays zero.

        >>> jobs = [Standing("a", "ads", 100.0), Standing("b", "ads", 300.0), Standing("c", "feed")]
        >>> tree = Tenants((Tenant("ads", 1.0), Tenant("feed", 3.0)))
        >>> {str(job): weight for job, weight in tree.weights(jobs).items()}
        {'ads/a': 0.25, 'ads/b': 0.75, 'feed/c': 1.5}
        """
        jobs = list(jobs)
        if not self.tenants:
            return _relative({job.id: job.weight for job in jobs})
        by_tenant: dict[str, dict[JobId, float]] = {}
        for job in jobs:
            by_tenant.setdefault(job.tenant, {})[job.id] = job.weight
        factors = self._factors(by_tenant)
        return {
            job: factors[tenant] * weight
            for tenant, beside in by_tenant.items()
            for job, weight in _relative(beside).items()
        }

    def _factors(self, owners: Mapping[str, object]) -> dict[str, float]:
        """The weight of each tenant that has jobs; jobs of no tenant stand as a tenant of weight 1."""
        known = {tenant.name: tenant for tenant in self.tenants}
        active: dict[str, str] = {}  # name -> parent
        weights = {name: tenant.weight for name, tenant in known.items()}
        for owner in owners:
            at = owner
            if at and at not in known:
                raise UnknownTenant(at, "a job")
            active.setdefault(at, known[at].parent if at else "")
            while at and known[at].parent:
                at = known[at].parent
                active.setdefault(at, known[at].parent)
        children: dict[str, dict[str, float]] = {}
        for name, parent in active.items():
            children.setdefault(parent if name else "", {})[name] = weights.get(name, 1.0)
        factors: dict[str, float] = {}

        def descend(parent: str, factor: float) -> None:
            for name, weight in _relative(children.get(parent, {})).items():
                factors[name] = factor * weight
                if name:
                    descend(name, factor * weight)

        descend("", 1.0)
        return factors


def _relative(weights: dict[Key, float]) -> dict[Key, float]:
    """Weights with a mean of 1 over those that are not zero."""
    positive = [weight for weight in weights.values() if weight > 0]
    mean = math.fsum(positive) / len(positive) if positive else 1.0
    return {key: weight / mean for key, weight in weights.items()}
