"""How a pool looks after workers that it starts itself, and the task that does so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from services.actuator.backoff import Backoff
from services.actuator.moment import Moment
from services.actuator.opening import OpenedPool
from services.control.types import PoolCapabilities, Victims


@dataclass(frozen=True, slots=True)
class Tending:
    """How long workers may take, and how often they are looked at."""

    drain_s: float = 30.0
    """A worker that was asked to leave is killed after this long."""
    backoff: Backoff = field(default_factory=Backoff)
    """How long to wait before one that keeps dying is started again."""
    poll_s: float = 0.1
    """Between two passes."""
    now: Callable[[], Moment] = Moment.now
    names: str = "w"
    """What the names of workers begin with: no two pools of one job may use the same."""

    @property
    def told(self) -> dict[str, str]:
        """What every worker is told of this: its own settings may say something else."""
        return {"PENSTOCK_DRAIN_S": f"{self.drain_s:g}"}


@dataclass(slots=True, kw_only=True)
class Tended:
    """The task that makes the passes, and what hinders it."""

    wake: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to make the next pass come at once."""
    task: asyncio.Task[None] | None = None
    fault: str = ""
    """What kept the last pass from its end, in words."""

    def check(self) -> None:
        """A mistake in the pool itself has ended the task: let it be seen."""
        if self.task is not None and self.task.done():
            self.task.result()

    async def stop_task(self) -> None:
        """No more passes. Raises what ended the task before, if anything did."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
            if not self.task.cancelled():
                self.task.result()


Passes = TypeVar("Passes", bound=Tended)


class TendedPool(OpenedPool[Passes]):
    """A pool that starts, watches and replaces its workers itself, in passes."""

    def __init__(self, job: str, tending: Tending) -> None:
        super().__init__(job)
        self._tending = tending

    def capabilities(self) -> PoolCapabilities:
        """Whoever is named leaves, and anybody may be kept waiting."""
        return PoolCapabilities(hot_join=True, scale_to_zero=True, victims=Victims.ANY, standbys=True)

    def _open(self) -> Passes:
        running = super()._open()
        running.check()
        return running
