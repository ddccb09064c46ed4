"""A pool as the tick sees it: who is there, what was asked for, what may be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property


class WorkerPhase(StrEnum):
    """Where a worker is in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STANDBY = "standby"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Worker:
    """One member of a pool, as the platform shows it."""

    id: str
    phase: WorkerPhase
    started_at_s: float
    gpu_type: str = ""
    node: str = ""


@dataclass(frozen=True)
class PoolState:
    """What the platform was asked for and what is there. Counted once, however often it is asked."""

    requested: int
    workers: tuple[Worker, ...] = ()
    failures: int = 0
    """Workers that ended without being asked to, since the pool was opened."""
    trouble: str = ""
    """What keeps the pool from its size, in words for an operator; empty when all is well."""
    by_type: Mapping[str, int] = field(default_factory=dict)
    """What was asked for of each GPU type, where a job has a pool for each; empty where it has one pool."""
    least: int = 0
    """What others let it shrink to: a disruption budget, or bounds of the platform's own."""
    most: int | None = None
    """What others let it grow to, likewise; None is no such limit."""
    least_by_type: Mapping[str, int] = field(default_factory=dict)
    """The same of each GPU type's pool, where there are several; none is named that can be emptied."""
    most_by_type: Mapping[str, int] = field(default_factory=dict)
    """Likewise; those without a limit are not named."""
    replacing: bool = False
    """The platform replaces workers on its own account, by a new version: whom it takes is its choice."""

    def towards(self, gpu_type: str) -> PoolState:
        """The same to a job that is on this type, or moves there: what it asked for elsewhere is leaving.

        >>> pool = PoolState(5, by_type={"a100": 2, "t4": 3}, most_by_type={"t4": 4}).towards("t4")
        >>> pool.requested, pool.least, pool.most
        (3, 0, 4)
        """
        if gpu_type not in self.by_type:
            return self
        return replace(
            self,
            requested=self.by_type[gpu_type],
            least=self.least_by_type.get(gpu_type, 0),
            most=self.most_by_type.get(gpu_type),
        )

    def elsewhere(self, gpu_type: str) -> dict[str, int]:
        """What was asked for of the other types, and has not been given back."""
        return {kind: count for kind, count in self.by_type.items() if kind != gpu_type and count > 0}

    def can_leave(self, gpu_type: str) -> bool:
        """Whether any of that can be given back: others may keep some, and asking again is in vain."""
        others = self.elsewhere(gpu_type).items()
        return any(count > self.least_by_type.get(kind, 0) for kind, count in others)

    def count(self, phase: WorkerPhase) -> int:
        """How many workers are in `phase`."""
        return sum(worker.phase is phase for worker in self.workers)

    @cached_property
    def ready_names(self) -> tuple[str, ...]:
        """The workers that train now."""
        return tuple([worker.id for worker in self.workers if worker.phase is WorkerPhase.READY])

    @property
    def ready(self) -> int:
        """Workers that train now."""
        return len(self.ready_names)

    @cached_property
    def loaded(self) -> int:
        """Workers that could train now, whether they do or stand by."""
        return self.ready + self.standing_by

    @cached_property
    def standing_by(self) -> int:
        """Workers that wait, loaded."""
        return self.count(WorkerPhase.STANDBY)

    @cached_property
    def starting_since_s(self) -> tuple[float, ...]:
        """When each worker that is on its way was asked for."""
        starting = WorkerPhase.STARTING
        return tuple([worker.started_at_s for worker in self.workers if worker.phase is starting])


@dataclass(frozen=True, slots=True)
class PoolResize:
    """A size to ask for. Absolute, so asking twice is asking once."""

    workers: int
    decision_id: str
    fence: int
    """Token of the controller that leads; a pool refuses any lower than it has seen."""
    remove: tuple[str, ...] = ()
    """Which workers should go when the pool shrinks, where the platform lets one choose."""
    gpu_type: str = ""
    """Of which type, where the job has a pool for each; empty is the one pool, or every one of them."""
    release: bool = False
    """Whether those on other types are to go: not before the new ones train in their place."""
    nodes: tuple[str, ...] = ()
    """On which nodes the workers should be, those that are there included, where the platform lets one
    choose. A wish: where there is no room, or nothing is said, the platform chooses."""


class Victims(StrEnum):
    """Who leaves when a pool shrinks."""

    ANY = "any"
    """Whoever the decision names."""
    HIGHEST = "highest"
    """The workers with the highest number at the end of their names, whatever the decision says."""
    NONE = "none"
    """The platform chooses, and does not tell beforehand."""


@dataclass(frozen=True, slots=True)
class PoolCapabilities:
    """What a kind of pool can do."""

    hot_join: bool
    """A worker that becomes ready trains without a restart of the others."""
    scale_to_zero: bool
    victims: Victims
    workers_max: int | None = None
    """The most that it can ever have; None is no such limit."""
    standbys: bool = False
    """A worker may be there, loaded, and wait for the assignment to name it."""
    places: bool = False
    """Workers come to the nodes that a resize names, where there is room."""
    fractional_gpus: bool = False
    """A worker may be given a part of a GPU, and the platform keeps account of what is left of it."""
