"""What a crew needs of the platform that runs its workers: processes, containers, actors."""

from __future__ import annotations

import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from services.actuator.intent import Intent


@dataclass(frozen=True, slots=True)
class Exit:
    """A worker has ended. `code` is None when nobody can tell it any more; minus a signal's number
    when that killed it."""

    code: int | None
    out_of_memory: bool = False

    def __str__(self) -> str:
        """
        >>> str(Exit(3)), str(Exit(-9)), str(Exit(None))
        ('exited with code 3', 'was killed by SIGKILL', 'ended')
        """
        if self.out_of_memory:
            return "was killed because memory ran out"
        if self.code is None:
            return "ended"
        if self.code >= 0:
            return f"exited with code {self.code}"
        try:
            return f"was killed by {signal.Signals(-self.code).name}"
        except ValueError:  # a real-time signal has a number and no name
            return f"was killed by signal {-self.code}"


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What the platform keeps of one worker, for whoever supervises it next. Times are wall times."""

    id: str
    asked_at_s: float
    started_at_s: float
    ready_at_s: float | None = None
    draining_at_s: float | None = None
    told_at_s: float | None = None
    """When it was asked to leave: noted after the signal, as `draining_at_s` is before it."""
    strikes: int = 0
    """Early deaths in a row in its place before it."""
    where: str = ""
    """How an operator finds it: `pid 4711`."""
    node: str = ""
    """Where it runs; before that is known, where it should."""
    gpu_type: str = ""
    """As the platform names it, where it was asked for one."""


@dataclass(frozen=True, slots=True)
class Sight:
    """One worker at one look."""

    ended: Exit | None = None
    ready: bool = False
    node: str = ""
    """Where it runs, when that was not known before it did."""


class NotStarted(Exception):
    """A worker could not be started. The message says why."""


class Platform(Protocol):
    """Runs workers and remembers them. Synchronous; decides nothing.

    All may raise OSError or PoolUnavailable, and are tried again with the next pass: each is
    harmless when repeated, or when the worker has gone.
    """

    def found(self) -> tuple[WorkerFacts, ...]:
        """Every worker that was started and not forgotten, whoever started it."""
        ...

    def look(self, workers: Collection[str]) -> Mapping[str, Sight]:
        """How these do now."""
        ...

    def reserve(self, intent: Intent, count: int) -> Intent:
        """Use up the next `count` worker ids, for good; the intent as it is then."""
        ...

    def start(self, worker: WorkerFacts) -> WorkerFacts:
        """Start it; found by others from then on. Comes back with its whereabouts. Raises NotStarted."""
        ...

    def note(self, worker: WorkerFacts) -> None:
        """Remember what has changed."""
        ...

    def ask_to_leave(self, worker: str) -> None:
        """SIGTERM."""
        ...

    def kill(self, worker: str) -> None: ...

    def forget(self, worker: str) -> None:
        """It has ended: clear away what is left of it, but for its log."""
        ...

    def last_line(self, worker: str) -> str:
        """The last that it said; empty when it said nothing."""
        ...

    def tidy(self, alive: Collection[str]) -> None:
        """Now and then: bound what the workers leave on the platform."""
        ...
