"""One Apache Kafka for all workers of a run: to start and keep one for each takes CPU time that tests need.

Whoever needs it first starts it, and ends it in the end, when no other worker uses it any more. Locks on
files tell: they go with whoever held them.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from services.embedded.apache import ApacheKafka
from tests.waiting import eventually

# The cleaner looks every 15 s by default, which tests of compaction would wait for.
SETTINGS = {"log.cleaner.backoff.ms": "200"}
_LONGEST_TEST_S = 900.0


@contextmanager
def shared_apache(directory: Path) -> Iterator[str]:
    """Where the broker listens that all who name this directory share, while one of them needs it."""
    address = directory / "kafka.address"
    with (directory / "kafka.lock").open("w") as lock, (directory / "kafka.users").open("w") as users:
        server = _joined(address, lock, users)
        try:
            yield address.read_text(encoding="utf-8")
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)
            if server is not None:
                with suppress(AssertionError):  # whoever still uses it hangs, and has been told so
                    eventually(
                        lambda: _left_by_all(address, lock, users), within_s=_LONGEST_TEST_S, every_s=0.2
                    )
                server.stop()


def _joined(address: Path, lock: IO[str], users: IO[str]) -> ApacheKafka | None:
    """One more user; the server is theirs who started it."""
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        server = None
        if not address.exists():
            server = ApacheKafka(settings=SETTINGS)
            server.start()
            address.write_text(server.bootstrap, encoding="utf-8")
        fcntl.flock(users, fcntl.LOCK_SH)
        return server
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)


def _left_by_all(address: Path, lock: IO[str], users: IO[str]) -> bool:
    """Whether nobody uses it. If so, whoever comes after finds no address, and starts another."""
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        address.unlink()
    except BlockingIOError:
        return False
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)
    return True
