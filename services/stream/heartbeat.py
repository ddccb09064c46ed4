"""The thread that keeps a worker's leases and learns which partitions it should read first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Event

from services.control.errors import ControlError
from services.stream.errors import LedgerUnavailable
from services.stream.outage import Outage
from services.stream.ports import LeaseLedger
from shuffler.errors import NotOpened


class Heartbeat:
    """Beats while `run` runs. It asks nothing of Kafka, whose silence must not cost a lease."""

    def __init__(
        self,
        ledger: LeaseLedger,
        *,
        holder: str,
        every_s: float,
        ask_preference: Callable[[], Sequence[int]],
    ) -> None:
        self._ledger = ledger
        self._holder = holder
        self._every_s = every_s
        self._ask_preference = ask_preference
        self._preference: Sequence[int] = ()
        self._assignment = Outage("assignment")

    def preference(self) -> Sequence[int]:
        """The partitions to read first, as last heard."""
        return self._preference

    def run(self, stopped: Event) -> None:
        """Beat until stopped."""
        while True:
            self._beat()
            if stopped.wait(self._every_s):
                return

    def _beat(self) -> None:
        try:
            self._ledger.renew(self._holder)
        except (LedgerUnavailable, NotOpened):
            return  # the feeder meets the same, says so and mends it
        try:
            self._preference = tuple(self._ask_preference())
        except ControlError as error:  # the last one is as good as any: it is a preference
            self._assignment.failed(error)
        else:
            self._assignment.answered()
