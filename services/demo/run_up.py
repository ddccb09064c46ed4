"""Before the figures count: a pool set by hand, so that every rule begins with workers and no backlog."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from services.controller.controller import Controller
from services.controller.desk import Caller
from services.demo.scenario import JOB, WORKERS_MAX, Scenario
from services.demo.traffic_process import TrafficProcess

_ALL_FOR: Final = 0.75
"""Of the run-up: the share in which all workers run, and work off what came before they did."""
_BY: Final = Caller("demo", "admin")


class Watch(Protocol):
    """Waits, and replaces what dies meanwhile."""

    async def __call__(self, *, until: Callable[[], bool]) -> None: ...


async def run_up(
    scenario: Scenario,
    controller: Controller,
    traffic: TrafficProcess,
    *,
    watch: Watch,
    stop: asyncio.Event,
) -> None:
    """All workers at first, then as many as the traffic needs; in the end the size is the rule's.

    Ends early when `stop` is set.
    """
    await watch(until=lambda: stop.is_set() or controller.status(JOB) is not None)
    sizes = {_ALL_FOR * scenario.run_up_s: WORKERS_MAX, scenario.run_up_s: scenario.workers_at_start}
    for until_s, workers in sizes.items():
        if stop.is_set():
            return
        await controller.desk.override(
            JOB, workers, _BY, lasting_s=2 * scenario.run_up_s, reason="running up"
        )

        def over(until_s: float = until_s) -> bool:
            return stop.is_set() or traffic.elapsed_s >= until_s

        await watch(until=over)
    await controller.desk.end_override(JOB, _BY)
