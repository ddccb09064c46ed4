"""Before the figures count: a pool set by hand, so that every rule begins with workers and no backlog."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from services.control.errors import StateUnavailable
from services.controller.controller import Controller
from services.controller.desk import Caller
from services.demo.scenario import JOB, WORKERS_MAX, Scenario
from services.demo.traffic_process import TrafficProcess
from services.store.job_record import JobRecord
from shuffler.lease import Progress

_ALL_FOR: Final = 0.75
"""Of the run-up: the share in which all workers run, and work off what came before they did."""
_BY: Final = Caller("demo", "admin")

Answer = TypeVar("Answer")


class Watch(Protocol):
    """Waits, and replaces what dies meanwhile."""

    async def __call__(self, *, until: Callable[[], bool]) -> None: ...


@dataclass(frozen=True, slots=True)
class RunUp:
    """Plays it. A store that is away for a while, as when it is being replaced, delays it and no more."""

    scenario: Scenario
    controller: Controller
    traffic: TrafficProcess
    watch: Watch
    stop: asyncio.Event
    """Whoever sets it ends the run-up early."""

    async def play(self, progress: Callable[[], Awaitable[Progress]]) -> Progress:
        """All workers at first, then as many as the traffic needs; in the end the size is the rule's.

        Where `progress` stands then. Raises StateUnavailable when told to stop while the store is away.
        """
        controller, run_up_s = self.controller, self.scenario.run_up_s
        await self._wait(lambda: controller.status(JOB) is not None)
        sizes = {_ALL_FOR * run_up_s: WORKERS_MAX, run_up_s: self.scenario.workers_at_start}
        for until_s, workers in sizes.items():
            await self._insist(partial(self._set, workers))
            await self._wait(partial(self._played, until_s))
        await self._insist(lambda: controller.desk.end_override(JOB, _BY))
        return await self._insist(progress)

    async def _set(self, workers: int) -> JobRecord:
        lasting_s = 2 * self.scenario.run_up_s
        return await self.controller.desk.override(
            JOB, workers, _BY, lasting_s=lasting_s, reason="running up"
        )

    def _played(self, until_s: float) -> bool:
        return self.traffic.elapsed_s >= until_s

    async def _wait(self, until: Callable[[], bool]) -> None:
        await self.watch(until=lambda: self.stop.is_set() or until())

    async def _insist(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        while True:
            try:
                return await ask()
            except StateUnavailable:
                if self.stop.is_set():
                    raise
                looks = iter((False,))
                await self.watch(until=partial(next, looks, True))  # looks round once: it may be replaced
