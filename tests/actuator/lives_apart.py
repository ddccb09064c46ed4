"""What tests put into a process of its own. Imported there, so nothing of the tests' own tools is up here."""

from __future__ import annotations

import os
import signal
import time

import structlog

from services.actuator.charged_supervision import Supervising
from services.actuator.lead_time import LeadTime
from services.actuator.moment import Moment
from services.control.errors import Fenced, PoolUnavailable, Rejected
from services.control.types import PoolResize, PoolState


class Counter:
    """Counts, and can be made to fail."""

    def __init__(self, start: int) -> None:
        self._count = start

    def add(self, number: int, *, twice: bool = False) -> int:
        self._count += number * (2 if twice else 1)
        structlog.get_logger().info("added", number=number)
        return self._count

    def pid(self) -> int:
        return os.getpid()

    def refuse(self) -> None:
        raise Fenced("the pool", token=1, newest=2)

    def err(self) -> None:
        raise ValueError("a mistake of its own")

    def die(self) -> None:
        os.write(2, b"the head is gone\n")
        os._exit(1)

    def hang(self) -> None:
        signal.pause()


def unreachable() -> Counter:
    raise PoolUnavailable("nobody answers")


def slow() -> Counter:
    time.sleep(2.0)
    return Counter(0)


class Crewless:
    """A supervision of nobody, that has lost some."""

    def __init__(self, lost: int) -> None:
        self.active = False
        self.empty = False
        self._lost = lost

    def make_pass(self, now: Moment, *, claim: bool) -> PoolState:
        self.active = claim
        self._lost += 1
        return PoolState(requested=int(now.wall_s), failures=self._lost)

    def ask(self, request: PoolResize) -> None:
        if request.workers < 0:
            raise Rejected("fewer than none")
        if request.workers > 9:
            raise PoolUnavailable("nobody answers")

    def dismiss_all(self) -> None:
        self.empty = True

    def kill_all(self) -> None:
        os._exit(1)

    def lead_times(self) -> tuple[LeadTime, ...]:
        return (LeadTime("w-1", 1.0, 2.0),)

    def close(self) -> None:
        """Nothing to let go of."""


def crewless(lost: int) -> Supervising:
    return Crewless(lost)
