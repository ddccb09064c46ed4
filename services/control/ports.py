"""The roles that the loop drives. Adapters translate; they decide nothing."""

from __future__ import annotations

from typing import Protocol

from forecasting.forecast import Forecast
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
    WorkerReport,
)


class Clock(Protocol):
    """Time, so that a simulation can have its own."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        ...

    async def sleep_until(self, at_s: float) -> None:
        """Return at `at_s`, or at once when that has passed."""
        ...


class TrafficMeter(Protocol):
    """How fast samples arrive and are trained, and how old the oldest untrained one is."""

    async def read(self) -> TrafficReading:
        """Measure now. Raises TrafficUnavailable when nothing was ever measured."""
        ...

    def history(self) -> TrafficHistory:
        """The past arrival rates, gaps as NaN."""
        ...


class ForecastSource(Protocol):
    """Where forecasts come from. Must answer at once: a slow model answers from its last forecast."""

    def forecast(self, history: TrafficHistory) -> Forecast | None:
        """None when no model can say anything yet."""
        ...


class WorkerPool(Protocol):
    """The GPU workers we may ask for. Asking is not getting."""

    async def observe(self) -> PoolState:
        """What was asked for and what is there. Raises PoolUnavailable."""
        ...

    async def resize(self, request: PoolResize) -> None:
        """Ask for a size. Idempotent; returns before the workers exist.

        Raises Fenced when a newer controller has asked, Rejected when the
        platform refuses, PoolUnavailable when it does not answer.
        """
        ...

    def capabilities(self) -> PoolCapabilities: ...


class Telemetry(Protocol):
    """What the workers say of themselves."""

    async def reports(self) -> tuple[WorkerReport, ...]:
        """The latest report of every live worker. Raises StateUnavailable."""
        ...


class StateStore(Protocol):
    """Where a job's memory outlives the controller."""

    async def load(self, job: str) -> ControlState:
        """The state last committed; a fresh one for a job never seen. Raises StateUnavailable."""
        ...

    async def commit(self, decision: Decision, *, fence: int) -> None:
        """Record the decision, its state and its actuation, and tell the workers its assignment: all or
        nothing.

        Comes before the resize, so that a worker to be removed is told to stop first. An earlier
        actuation that was never settled is superseded by a new one.
        Raises Fenced when a newer token has committed, StateUnavailable when it cannot be known.
        """
        ...

    async def settle(self, job: str, settlement: Settlement) -> None:
        """Mark the latest actuation with its end. Nothing happens when it is settled already, or is
        not the latest. Raises StateUnavailable."""
        ...

    async def decisions(self, job: str, *, limit: int = 100) -> tuple[Decision, ...]:
        """The latest decisions, newest first."""
        ...

    async def actuations(self, job: str, *, limit: int = 100) -> tuple[Actuation, ...]:
        """The trail of resizes, newest first, each with what became of it."""
        ...


class Leadership(Protocol):
    """Which of several controllers may act."""

    def token(self) -> int | None:
        """Our fencing token while we lead; None when another does, or when we cannot be sure."""
        ...
