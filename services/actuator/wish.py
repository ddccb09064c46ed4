"""The size that a pool should have, left where whoever sizes it will ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from services.actuator.admission import admit
from services.control.types import PoolResize


@dataclass(frozen=True, slots=True)
class Wish:
    """The last resize that was asked for."""

    workers: int
    fence: int
    decision_id: str


class Wishes(Protocol):
    """Keeps the latest wish of each job, where every replica can read it."""

    async def publish(self, job: str, request: PoolResize) -> None:
        """Make it the wish in force. Raises Fenced, Rejected and StateUnavailable."""
        ...

    async def latest(self, job: str) -> Wish | None:
        """The wish in force; None before the first. Raises StateUnavailable."""
        ...


class MemoryWishes:
    """`Wishes` in this process alone."""

    def __init__(self) -> None:
        self._wishes: dict[str, Wish] = {}

    async def publish(self, job: str, request: PoolResize) -> None:
        """Raises Fenced and Rejected."""
        known = self._wishes.get(job)
        admit(request, pool=f"pool of job {job}", newest=0 if known is None else known.fence)
        self._wishes[job] = Wish(request.workers, request.fence, request.decision_id)

    async def latest(self, job: str) -> Wish | None:
        return self._wishes.get(job)
