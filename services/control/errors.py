"""What can go wrong in a tick, and what the loop does about it.

ControlError
├── Transient              hold the pool, count it, try again next tick
│   ├── StateUnavailable   the store does not answer
│   ├── TrafficUnavailable Kafka does not answer, or the topic is not there
│   └── PoolUnavailable    the platform does not answer
├── Fenced                 another controller leads; stop acting at once
└── Rejected               the platform said no; a person must look
"""

from __future__ import annotations

from functools import partial


class ControlError(Exception):
    """Anything that stops a tick in an expected way."""


class Transient(ControlError):
    """May be gone by the next tick. The pool is held until then."""


class StateUnavailable(Transient):
    """The store does not answer."""


class TrafficUnavailable(Transient):
    """Traffic cannot be measured: no broker answers, or the topic is not there."""


class PoolUnavailable(Transient):
    """The platform that runs the workers does not answer."""


class Fenced(ControlError):
    """A controller with a newer token has taken over."""

    def __init__(self, what: str, *, token: int, newest: int) -> None:
        super().__init__(f"{what}: token {token} was superseded by {newest}; another controller leads")
        self.what = what
        self.token = token
        self.newest = newest

    def __reduce__(self) -> tuple[partial[Fenced], tuple[str]]:
        """It may be raised in another process than the one that catches it."""
        return partial(Fenced, token=self.token, newest=self.newest), (self.what,)


class Rejected(ControlError):
    """The platform refused the request; asking again will not help."""
