"""What can go wrong with the store, beyond what the loop itself knows.

ControlError
├── Transient
│   └── StateUnavailable   Redis does not answer, or refuses the command; try again next tick
├── Fenced                 a newer controller has committed; stop acting
└── StateCorrupt           what is stored cannot be read; a person must look
ValueError
└── InvalidRedisUrl        the settings' `redis.url` cannot be parsed
"""

from services.control.errors import ControlError


class StateCorrupt(ControlError):
    """What lies under `key` cannot be read by this version of Penstock.

    The job is held, never reset by itself: its memory may be fine and the reader too old.
    """

    def __init__(self, key: str, *, wrong: str, remedy: str) -> None:
        super().__init__(f"{key}: {wrong}; {remedy}")
        self.key = key


class InvalidRedisUrl(ValueError):
    """The URL cannot be parsed. Not repeated in the message: it may carry a password."""

    def __init__(self) -> None:
        super().__init__(
            "redis.url cannot be parsed; it must be redis://[[user]:password@]host:port/db or "
            "redis+sentinel://[[user]:password@]host:port,host:port/SERVICE/db, "
            "with special characters of the password percent-encoded"
        )
