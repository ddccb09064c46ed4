"""Take a Redis away, and bring it back."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from services.embedded.redis import EmbeddedRedis


def kill(server: EmbeddedRedis) -> None:
    """End the server without warning. `server.restart()` brings it back with its data."""
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait(within_s=10.0)


@contextmanager
def frozen(server: EmbeddedRedis) -> Iterator[None]:
    """The server keeps its connections, accepts new ones, and answers nothing."""
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
