"""What a pool was asked for and who is in charge of it, where the platform itself keeps that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from services.actuator.intent import Intent
from services.actuator.platform import Platform
from services.control.errors import PoolUnavailable


class IntentMoved(PoolUnavailable):
    """Another controller wrote an intent in between; look again."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What was asked for last, and which controller's pool is in charge of it."""

    intent: Intent = field(default_factory=Intent)
    supervisor: str = ""


@dataclass(frozen=True, slots=True)
class NumberedCharge:
    """A charge and its place in the order of all that were written."""

    number: int
    charge: Charge


class Charges(Protocol):
    """Where a platform keeps the charge of one job's pool. Blocking."""

    def latest(self) -> NumberedCharge:
        """The charge in force; nothing and nobody for a pool that was never asked."""
        ...

    def write(self, charge: Charge, *, after: int) -> NumberedCharge:
        """Make `charge` the one in force, if that which was in force had the number `after`.

        Raises IntentMoved.
        """
        ...


class ChargedPlatform(Platform, Protocol):
    """A platform that several controllers reach, and that tells them who is in charge.

    `refresh()` looks at it; all else speaks of what was seen then.
    """

    def refresh(self) -> Charge:
        """Look at workers and charge. The charge comes first: whoever starts a worker after this look has
        used up its id in a later one, so that our own reservation fails."""
        ...

    def take_charge(self, supervisor: str) -> None:
        """Supervise from now on. Raises IntentMoved when another controller came first."""
        ...

    def close(self) -> None:
        """Let go of the platform."""
        ...
