"""A supervision that is done in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from services.actuator.apart import Apart, NotReached
from services.actuator.charge import IntentMoved
from services.actuator.charged_supervision import Supervising
from services.actuator.lead_time import LeadTime
from services.actuator.moment import Moment
from services.control.errors import PoolUnavailable
from services.control.types import PoolResize, PoolState

_ANEW_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class _Standing:
    """What is asked for without a call of its own."""

    active: bool = False
    empty: bool = True
    lead_times: tuple[LeadTime, ...] = ()


class Reporting:
    """In the other process: does what is asked for, and tells how it stands after that."""

    def __init__(self, make: Callable[..., Supervising], *arguments: object) -> None:
        self._supervision = make(*arguments)

    def do(self, method: str, *arguments: object, **options: object) -> tuple[Any, _Standing]:
        """The answer, and how it stands."""
        supervision = self._supervision
        answer = getattr(supervision, method)(*arguments, **options)
        return answer, _Standing(supervision.active, supervision.empty, supervision.lead_times())


class SupervisionApart:
    """A `Supervising` whose process may be lost: another then adopts the workers, and goes on.

    `make` and its arguments have to be picklable. Raises PoolUnavailable when the process is lost.
    """

    def __init__(self, what: str, make: Callable[..., Supervising], *arguments: object) -> None:
        self._apart = Apart(what, Reporting, make, *arguments)
        self._standing = _Standing()
        self._failures = _Failures()
        self._hindered_s: float | None = None
        """Since when nothing has come of any question."""

    def reach(self) -> None:
        """Have the platform reached. Raises PoolUnavailable."""
        self._apart.reach()

    def make_pass(self, now: Moment, *, claim: bool) -> PoolState:
        state: PoolState = self._do("make_pass", now, claim=claim)
        return replace(state, failures=self._failures.so_far(state.failures, process=self._apart.started))

    def ask(self, request: PoolResize) -> None:
        self._do("ask", request)

    def dismiss_all(self) -> None:
        self._do("dismiss_all")

    def kill_all(self) -> None:
        self._do("kill_all")

    @property
    def active(self) -> bool:
        return self._standing.active

    @property
    def empty(self) -> bool:
        return self._standing.empty

    def lead_times(self) -> tuple[LeadTime, ...]:
        return self._standing.lead_times

    def close(self) -> None:
        self._apart.close()

    def _do(self, method: str, *arguments: object, **options: object) -> Any:
        try:
            answer, self._standing = self._apart.call("do", method, *arguments, **options)
        except IntentMoved:
            self._hindered_s = None
            raise
        except NotReached:
            raise  # it is being made anew already
        except PoolUnavailable:
            self._hindered()
            raise
        self._hindered_s = None
        return answer

    def _hindered(self) -> None:
        """A connection to a cluster that is gone may wait for ever, beside one that took its place."""
        now_s = time.monotonic()
        self._hindered_s = now_s if self._hindered_s is None else self._hindered_s
        if now_s - self._hindered_s > _ANEW_AFTER_S:
            self._apart.close()
            self._hindered_s = None


@dataclass(slots=True)
class _Failures:
    """Counted on where one process after the other begins at nothing."""

    before: int = 0
    latest: int = 0
    process: int = 0

    def so_far(self, told: int, *, process: int) -> int:
        """All, where the process of that number tells of its own."""
        if process != self.process:
            self.before, self.process = self.before + self.latest, process
        self.latest = told
        return self.before + told
