"""The loop's ports on a simulated world. The loop cannot tell, except by how fast the days go by.

Kept apart from the memory adapters for speed alone: a week is sixty thousand ticks.
"""

from __future__ import annotations

import math
from collections.abc import Coroutine
from typing import Any, TypeVar

import numpy as np

from forecasting.errors import NotEnoughHistory
from forecasting.forecast import Forecast
from forecasting.forecaster import Forecaster
from forecasting.history import TrafficHistory
from services.control.actuation import Settlement
from services.control.types import (
    Actuation,
    ControlState,
    Decision,
    PoolCapabilities,
    PoolResize,
    PoolState,
    TrafficReading,
    Victims,
    Worker,
    WorkerPhase,
    WorkerReport,
)
from services.simulator import layout as at
from services.simulator.kernel import collect
from services.simulator.trace import Floats
from services.simulator.world import World

T = TypeVar("T")

HISTORY_DAYS_MAX = 28
_PHASES = {
    at.STARTING: WorkerPhase.STARTING,
    at.READY: WorkerPhase.READY,
    at.DRAINING: WorkerPhase.DRAINING,
    at.STANDBY: WorkerPhase.STANDBY,
}


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits, without an event loop: every port here answers at once."""
    try:
        work.send(None)
    except StopIteration as finished:
        result: T = finished.value
        return result
    work.close()
    raise RuntimeError("a simulated port waited; all of them must answer at once")


class WorldClock:
    """The world's own time, on the trace's calendar."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_s(self) -> float:
        return self._world.arrivals.start_s + self._world.now_s

    async def sleep_until(self, at_s: float) -> None:
        """Let the world pass until then."""
        self._world.advance(math.ceil(at_s - self._world.arrivals.start_s))


class WorldMeter:
    """Offsets are exact, as they are live; rates are means since the last tick.

    `before` holds the minutes before the world began, so that history reaches back as
    far as a backfill would.
    """

    def __init__(self, world: World, before: Floats, *, tick_s: int) -> None:
        self._world = world
        self._tick_s = tick_s
        kept = before[max(0, len(before) - HISTORY_DAYS_MAX * 1440) :]
        self._before = len(kept)
        self._all = TrafficHistory(
            start_s=world.arrivals.start_s - 60.0 * self._before,
            step_s=60.0,
            rates=np.concatenate([kept, world.arrivals.minutes]),
        )
        self._history = self._up_to(self._before)
        self._trained = 0.0
        self._weights = world.parts[:, at.WEIGHT].copy()
        self._each = 1 / world.plant.partitions

    async def read(self) -> TrafficReading:
        world, now = self._world, self._world.now_s
        since = max(now - self._tick_s, 0)
        span_s = max(now - since, 1)
        trained = float(world.count[at.TRAINED_TOTAL])
        trained_per_s, self._trained = (trained - self._trained) / span_s, trained
        rate = float(world.arrived[now] - world.arrived[since]) / span_s
        return TrafficReading(
            at_s=world.arrivals.start_s + now,
            rate_per_s=rate,
            trained_per_s=trained_per_s,
            lag=round(world.lag),
            lag_s=float(world.count[at.OLDEST]),
            partition_rates=self._rates(rate),
            partition_lags=self._lags(),
        )

    def history(self) -> TrafficHistory:
        last = self._before + self._world.now_s // 60
        if len(self._history.rates) != last:
            self._history = self._up_to(last)
        return self._history

    def _up_to(self, last: int) -> TrafficHistory:
        # Made without its checks, which copy: the whole is checked once, and a part of it is as good.
        history = object.__new__(TrafficHistory)
        for name, value in (
            ("start_s", self._all.start_s),
            ("step_s", 60.0),
            ("rates", self._all.rates[:last]),
        ):
            object.__setattr__(history, name, value)
        return history

    def _rates(self, rate: float) -> tuple[float, ...]:
        """By partition only in a group: with leases the assignment is a preference, which changes
        nothing here, and planning it at every tick would cost more than all the rest."""
        if not self._world.plant.shuffle.is_group:
            return ()
        return tuple((self._weights * rate).tolist())

    def _lags(self) -> tuple[int, ...]:
        world = self._world
        if world.lag <= 0:
            return (0,) * world.plant.partitions
        if len(world.parts) == 1:
            return (round(world.lag * self._each),) * world.plant.partitions
        waiting = (world.arrived[world.now_s] - world.parts[:, at.DONE]) * self._weights
        return tuple(np.rint(waiting).astype(np.int64).tolist())


class WorldPool:
    """The workers of the world. Asking is not getting."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._version = -1.0
        hot_join = not world.plant.shuffle.stops_all
        self._able = PoolCapabilities(
            hot_join=hot_join, scale_to_zero=True, victims=Victims.ANY, standbys=True
        )
        self._state = PoolState(0)
        self.ready_slots = np.empty(0, dtype=np.int64)
        self.ready_names: tuple[str, ...] = ()

    async def observe(self) -> PoolState:
        world = self._world
        if world.count[at.VERSION] != self._version:
            self._version = float(world.count[at.VERSION])
            self._state = self._look()
        return self._state

    async def resize(self, request: PoolResize) -> None:
        self._world.ask(request.workers, tuple(int(name[1:]) for name in request.remove))

    def capabilities(self) -> PoolCapabilities:
        return self._able

    def _look(self) -> PoolState:
        world = self._world
        rows = world.workers[: int(world.count[at.TOP])]
        there = np.flatnonzero(rows[:, at.PHASE] != at.FREE)
        start_s = world.arrivals.start_s
        workers = tuple(
            Worker(
                f"w{int(rows[slot, at.NUMBER])}",
                _PHASES[int(rows[slot, at.PHASE])],
                start_s + rows[slot, at.ASKED_AT],
            )
            for slot in there
        )
        self.ready_slots = there[rows[there, at.PHASE] == at.READY]
        state = PoolState(world.requested, workers, failures=int(world.count[at.FAILURES]))
        self.ready_names = state.ready_names
        return state


class WorldTelemetry:
    """What workers say of themselves over the last tick, with noise; nothing where nobody listens."""

    def __init__(self, world: World, pool: WorldPool, *, seed: int, listened_to: bool = True) -> None:
        self._world = world
        self._pool = pool
        self._listened_to = listened_to
        self._rng = np.random.default_rng([seed, 3])
        self._noise = self._drawn()
        self._next = 0

    async def reports(self) -> tuple[WorkerReport, ...]:
        slots, names = self._pool.ready_slots, self._pool.ready_names
        if not names or not self._listened_to:
            return ()
        window = collect(self._world.workers, slots, self._take(2 * len(names)))
        now_s = self._world.arrivals.start_s + self._world.now_s
        return tuple(
            [
                WorkerReport(name, now_s, int(trained), busy, speed)
                for name, (trained, busy, speed) in zip(names, window.tolist(), strict=True)
            ]
        )

    def _take(self, many: int) -> Floats:
        if self._next + many > len(self._noise):
            self._noise, self._next = self._drawn(), 0
        taken = self._noise[self._next : self._next + many]
        self._next += many
        return taken

    def _drawn(self) -> Floats:
        sigma = math.sqrt(math.log1p(self._world.plant.noise**2))
        noise: Floats = np.exp(sigma * self._rng.standard_normal(65_536) - sigma**2 / 2)
        return noise


class WorldForecasts:
    """A forecaster asked once a bin; ticks in between get the same answer."""

    def __init__(self, forecaster: Forecaster | None, *, horizon_s: float) -> None:
        self._forecaster = forecaster
        self._horizon_s = horizon_s
        self._asked: TrafficHistory | None = None
        self._latest: Forecast | None = None

    def forecast(self, history: TrafficHistory) -> Forecast | None:
        if self._forecaster is None:
            return None
        if history is not self._asked:
            self._asked = history
            try:
                self._latest = self._forecaster.forecast(history, horizon_s=self._horizon_s)
            except NotEnoughHistory:
                self._latest = None
        return self._latest


class WorldStore:
    """Remembers nothing beyond the run: the loop holds the state, and nobody takes over from it.

    Who is to stand by is told to the workers with each commit, as a store tells the assignment.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    async def load(self, job: str) -> ControlState:
        del job
        return ControlState()

    async def commit(self, decision: Decision, *, fence: int) -> None:
        del fence
        world, active = self._world, decision.state.assignment.active
        if decision.standbys != (world.stood_by[-1][1] if world.stood_by else 0):
            world.stood_by.append((world.now_s, decision.standbys))
        world.let_train(None if active is None else tuple(int(name[1:]) for name in active))

    async def settle(self, job: str, settlement: Settlement) -> None:
        del job, settlement

    async def decisions(self, job: str, *, limit: int = 100) -> tuple[Decision, ...]:
        del job, limit
        return ()

    async def actuations(self, job: str, *, limit: int = 100) -> tuple[Actuation, ...]:
        del job, limit
        return ()


class OneController:
    """Alone in its world, so it always leads."""

    def token(self) -> int | None:
        return 1
