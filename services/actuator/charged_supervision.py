"""One controller's part in supervising workers of a platform that keeps the charge. Blocking; time is an
argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol
from uuid import uuid4

from services.actuator.charge import Charge, ChargedPlatform, Charges, IntentMoved
from services.actuator.crew import Crew
from services.actuator.intent import Intent
from services.actuator.lead_time import LeadTime
from services.actuator.moment import Moment
from services.control.types import PoolResize, PoolState

_TRIES = 5


class Supervising(Protocol):
    """What a pool needs of whoever supervises its workers. Blocking; `ChargedSupervision` says more."""

    @property
    def active(self) -> bool: ...

    @property
    def empty(self) -> bool: ...

    def make_pass(self, now: Moment, *, claim: bool) -> PoolState: ...

    def ask(self, request: PoolResize) -> None: ...

    def dismiss_all(self) -> None: ...

    def kill_all(self) -> None: ...

    def lead_times(self) -> tuple[LeadTime, ...]: ...

    def close(self) -> None: ...


class ChargedSupervision:
    """Follows the intent that is written on the platform, whoever wrote it."""

    def __init__(self, job: str, platform: ChargedPlatform, charges: Charges, crew: Crew) -> None:
        self._name = f"pool of job {job}"
        self._platform = platform
        self._charges = charges
        self._crew = crew
        self._id = uuid4().hex
        self.active = False
        """Whether we supervised in the last pass."""

    def make_pass(self, now: Moment, *, claim: bool) -> PoolState:
        """Bring the workers nearer to what was asked for, if that is for us to do; the pool then.

        With `claim` we take the supervision from whoever has it. One that finds itself superseded
        looks on for this pass, whatever it claims: the other may know better.
        """
        charge = self._platform.refresh()
        if charge.supervisor != self._id:
            superseded, self.active = self.active, False
            if superseded or not claim:
                return PoolState(charge.intent.requested, self._crew.on_record(now))
            self._platform.take_charge(self._id)
        if self.active:
            self._crew.join(now)
        else:
            self._crew.adopt(now)
            self.active = True
        return self._state(self._crew.reconcile(charge.intent, now), now)

    def ask(self, request: PoolResize) -> None:
        """Write down what is wanted, and take the supervision. Raises Fenced and Rejected."""
        self._rewrite(
            lambda charge: Charge(charge.intent.after(request, pool=self._name), supervisor=self._id)
        )

    def dismiss_all(self) -> None:
        """Want no worker any more; the fence stays as it is."""
        self._rewrite(
            lambda charge: Charge(replace(charge.intent, requested=0, remove=()), supervisor=self._id)
        )

    def kill_all(self) -> None:
        """End everyone now, and clear away who has ended."""
        self._platform.refresh()
        self._crew.kill_all()

    @property
    def empty(self) -> bool:
        """Nobody is left, draining ones included."""
        return self._crew.empty

    def lead_times(self) -> tuple[LeadTime, ...]:
        """The latest starts, asked to ready, oldest first."""
        return self._crew.lead_times.recent()

    def close(self) -> None:
        """Let go of the platform."""
        self._platform.close()

    def _state(self, intent: Intent, now: Moment) -> PoolState:
        return PoolState(
            requested=intent.requested,
            workers=self._crew.workers(),
            failures=self._crew.failures,
            trouble=self._crew.trouble(now),
        )

    def _rewrite(self, change: Callable[[Charge], Charge]) -> None:
        """Change the charge in force, looking again when another controller came first."""
        for tries_left in reversed(range(_TRIES)):
            latest = self._charges.latest()
            wanted = change(latest.charge)
            try:
                if wanted != latest.charge:
                    self._charges.write(wanted, after=latest.number)
            except IntentMoved:
                if tries_left == 0:
                    raise
            else:
                return
