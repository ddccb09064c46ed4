"""Workers that exist in memory alone, on a clock of the caller's choosing. For simulations and tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum, auto
from heapq import heappop, heappush

from services.actuator.admission import admit
from services.actuator.lead_time import LeadTime, LeadTimes
from services.actuator.victims import choose_victims
from services.control.ports import Clock
from services.control.types import PoolCapabilities, PoolResize, PoolState, Victims, Worker, WorkerPhase


class _Event(Enum):
    READY = auto()
    LOST = auto()
    GONE = auto()
    REPLACE = auto()


class MemoryPool:
    """A `WorkerPool` that behaves as a platform does: workers take time to start and to leave, and die.

    Nothing runs in the background: each call first lives through what happened since the last, in
    order of time, so the outcome does not depend on how often it is looked at.

    `startup_s` and `lifetime_s` are numbers, or functions that draw one per worker (from a seeded
    generator, say). A worker that dies is replaced after `restart_s`.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        startup_s: float | Callable[[], float] = 0.0,
        drain_s: float = 0.0,
        lifetime_s: Callable[[], float] | None = None,
        restart_s: float = 1.0,
        names: str = "w",
    ) -> None:
        if not restart_s > 0:  # else a worker that dies at once would be replaced for ever at one moment
            raise ValueError(f"restart_s is {restart_s}; it must be above 0")
        self._clock = clock
        self._startup_s = startup_s if callable(startup_s) else lambda: startup_s
        self._drain_s = drain_s
        self._lifetime_s = lifetime_s
        self._restart_s = restart_s
        self._names = names
        self._requested = 0
        self._fence = 0
        self._started = 0
        self._failures = 0
        self._workers: dict[str, Worker] = {}
        self._lead_times = LeadTimes()
        self._events: list[tuple[float, int, _Event, str]] = []
        self._pushed = 0

    async def observe(self) -> PoolState:
        """The pool at this moment of its clock."""
        self._live_until(self._clock.now_s())
        return PoolState(self._requested, tuple(self._workers.values()), self._failures)

    async def resize(self, request: PoolResize) -> None:
        """Grow and shrink at this moment of the clock. Raises Fenced and Rejected."""
        admit(request, pool="memory pool", newest=self._fence)
        now_s = self._clock.now_s()
        self._live_until(now_s)
        self._fence = request.fence
        self._requested = request.workers
        for worker in choose_victims(self._staying(), keep=request.workers, remove=request.remove):
            self._workers[worker] = replace(self._workers[worker], phase=WorkerPhase.DRAINING)
            self._push(now_s + self._drain_s, _Event.GONE, worker)
        self._fill(now_s)
        self._live_until(now_s)

    def capabilities(self) -> PoolCapabilities:
        return PoolCapabilities(hot_join=True, scale_to_zero=True, victims=Victims.ANY, standbys=True)

    def lead_times(self) -> tuple[LeadTime, ...]:
        """The latest starts, asked to ready, oldest first."""
        return self._lead_times.recent()

    def fail(self, worker: str) -> None:
        """Let a worker die now, unasked. A name that is not there is an error: KeyError."""
        now_s = self._clock.now_s()
        self._live_until(now_s)
        self._lose(now_s, self._workers[worker])

    def _staying(self) -> list[Worker]:
        return [worker for worker in self._workers.values() if worker.phase is not WorkerPhase.DRAINING]

    def _fill(self, now_s: float) -> None:
        for _ in range(self._requested - len(self._staying())):
            self._started += 1
            worker = f"{self._names}-{self._started}"
            self._workers[worker] = Worker(worker, WorkerPhase.STARTING, now_s)
            self._push(now_s + self._startup_s(), _Event.READY, worker)
            if self._lifetime_s is not None:
                self._push(now_s + self._lifetime_s(), _Event.LOST, worker)

    def _push(self, at_s: float, event: _Event, worker: str = "") -> None:
        self._pushed += 1  # events of the same moment happen in the order in which they were caused
        heappush(self._events, (at_s, self._pushed, event, worker))

    def _live_until(self, now_s: float) -> None:
        while self._events and self._events[0][0] <= now_s:
            at_s, _, event, worker = heappop(self._events)
            if event is _Event.REPLACE:
                self._fill(at_s)
            elif worker in self._workers:  # else it left or died before this could happen to it
                self._happen(at_s, event, self._workers[worker])

    def _happen(self, at_s: float, event: _Event, worker: Worker) -> None:
        if event is _Event.GONE:
            del self._workers[worker.id]
        elif event is _Event.LOST:
            self._lose(at_s, worker)
        elif worker.phase is WorkerPhase.STARTING:
            self._workers[worker.id] = replace(worker, phase=WorkerPhase.READY)
            self._lead_times.note(LeadTime(worker.id, worker.started_at_s, at_s - worker.started_at_s))

    def _lose(self, at_s: float, worker: Worker) -> None:
        del self._workers[worker.id]
        if worker.phase is not WorkerPhase.DRAINING:
            self._failures += 1
            self._push(at_s + self._restart_s, _Event.REPLACE)
