"""The thread that keeps a worker's leases and learns which partitions it should read first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event
from typing import Final

from services.control.errors import ControlError, StateUnavailable
from services.stream.errors import LedgerUnavailable
from services.stream.outage import Outage
from services.stream.ports import LeaseLedger
from shuffler.errors import NotOpened

_STANDBY_S: Final = 0.02
"""How often a worker that stands by asks whether it is needed: what it costs Redis is some fifty small
questions a second, what it saves is all of the start-up."""
_HEAR_S: Final = 0.2
"""Whoever wakes late waits this long: it may have been asked to leave meanwhile, and is yet to hear of it."""


class Heartbeat:
    """Beats while `run` runs. It asks nothing of Kafka, whose silence must not cost a lease.

    With `ask_standby` a worker stands by until it has heard otherwise; `on_activation` is called then.
    """

    def __init__(
        self,
        ledger: LeaseLedger,
        *,
        holder: str,
        every_s: float,
        ask_preference: Callable[[], Sequence[int]],
        ask_standby: Callable[[], bool] | None = None,
        on_activation: Callable[[], None] = lambda: None,
    ) -> None:
        self._ledger = ledger
        self._holder = holder
        self._every_s = every_s
        self._ask_preference = ask_preference
        self._ask_standby = ask_standby
        self._on_activation = on_activation
        self._preference: Sequence[int] = ()
        self._stands_by = ask_standby is not None
        self._renew_at_s = 0.0
        self._beaten_s = time.monotonic()
        self._leaves = Event()
        self._leave_by_s = float("inf")
        self._assignment = Outage("assignment")

    def preference(self) -> Sequence[int]:
        """The partitions to read first, as last heard."""
        return self._preference

    def stands_by(self) -> bool:
        """Whether to take no lease for now, as last heard."""
        return self._stands_by

    def leave(self, *, within_s: float) -> None:
        """Keep no lease alive beyond `within_s` from when we were asked to leave. From any thread.

        Whoever was frozen cannot know when that was: at the latest when it missed a beat.
        """
        asked_s = min(time.monotonic(), self._beaten_s + self._every_s)
        self._leave_by_s = min(self._leave_by_s, asked_s + within_s)
        self._leaves.set()

    def prepare(self) -> None:
        """Ask once and heed nothing: the first beat then waits for no connection, and is heard at once."""
        with suppress(ControlError):  # the first beat meets the same, and tells
            self._ask_preference()

    def run(self, stopped: Event) -> None:
        """Beat until stopped; quicker while standing by."""
        while True:
            self._beat()
            if stopped.wait(min(_STANDBY_S, self._every_s) if self._stands_by else self._every_s):
                return

    def _beat(self) -> None:
        """Orders first: a worker that stands by must not be kept from its work by a ledger that nobody
        has opened yet. Leases that it may still hold are renewed as ever."""
        try:
            self._listen()
        except StateUnavailable as error:
            self._assignment.failed(error)  # what was heard last is as good as any
        except ControlError as error:  # it cannot be read: training is the safe side
            self._stands_by = False
            self._assignment.failed(error)
        else:
            self._assignment.answered()
        if time.monotonic() - self._beaten_s > 2 * self._every_s:
            self._leaves.wait(_HEAR_S)
        self._beaten_s = now_s = time.monotonic()
        if now_s < self._renew_at_s:
            return
        self._renew_at_s = now_s + 0.9 * self._every_s
        try:
            if self._leaves.is_set():
                self._ledger.leave(self._holder, within_s=max(0.0, self._leave_by_s - now_s))
            else:
                self._ledger.renew(self._holder)
        except (LedgerUnavailable, NotOpened):
            return  # the feeder meets the same, says so and mends it

    def _listen(self) -> None:
        stood_by = self._stands_by
        if self._ask_standby is not None:
            self._stands_by = self._ask_standby()
        if not self._stands_by:
            self._preference = tuple(self._ask_preference())
            if stood_by:
                self._on_activation()
